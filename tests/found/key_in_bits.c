// Keys keep some bits of an address: packets of one key come with many addresses.
#include <nicforge.h>

struct key {
    uint32_t group : 3;
};

NF_TABLE(hash, seen, struct key, uint64_t, 64);

void net_recv(nf_pkt pkt)
{
    struct nf_eth eth;
    struct nf_ipv4 ip;
    if (!nf_extract(pkt, &eth) || !nf_extract(pkt, &ip)) {
        nf_drop(pkt);
        return;
    }
    struct key key = {0};
    key.group = nf_ntohl(ip.src);
    uint64_t count = 0;
    nf_lookup(&seen, key, &count);
    count = count * 3 + nf_len(pkt);
    nf_update(&seen, key, count);
    nf_emit(pkt, &eth);
    nf_emit(pkt, &ip);
    nf_emit(pkt, &count);
    nf_send(pkt, 0);
}
