/* Several events without a packet, from a loop, while the packet goes its way. */
#include <nicforge.h>

NF_TABLE(hash, bytes, uint32_t, uint64_t, 4096);
NF_TABLE(array, last, uint32_t, uint64_t, 4);

void part(uint32_t number, uint32_t value);

void net_recv(nf_pkt pkt)
{
    struct nf_eth eth;
    struct nf_ipv4 ip;
    if (!nf_extract(pkt, &eth) || eth.type != nf_htons(NF_ETH_IPV4) || !nf_extract(pkt, &ip)) {
        nf_drop(pkt, "not IPv4");
        return;
    }
    uint32_t source = nf_ntohl(ip.src);
    for (uint32_t i = 0; i < 4; i++) {
        if ((source >> (8 * i) & 0xff) == 0)
            break;
        nf_enqueue(part, i, source >> (8 * i) & 0xff);
    }
    nf_reset(pkt);
    nf_send(pkt, source & 1);
}

void part(uint32_t number, uint32_t value)
{
    uint64_t seen;
    nf_lookup(&bytes, number << 8 | value, &seen);
    nf_update(&bytes, number << 8 | value, seen + 1);
    nf_update(&last, number, seen);
}
