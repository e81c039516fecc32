/* Two queues: one with packets, one with values only. What is accounted for a source is accounted
 * in order. */
#include <nicforge.h>

struct item {
    nf_be32 source;
    nf_be16 type;
    uint16_t length;
    uint32_t hash;
};

struct seen {
    uint64_t packets;
    uint64_t bytes;
};

NF_TABLE(hash, sources, nf_be32, struct seen, 4096);
NF_TABLE(array, kinds, uint32_t, uint64_t, 16);

void account(nf_pkt pkt, struct item item);
void kind(uint32_t which);

void net_recv(nf_pkt pkt)
{
    struct nf_eth eth;
    struct nf_ipv4 ip;
    if (!nf_extract(pkt, &eth) || eth.type != nf_htons(NF_ETH_IPV4) || !nf_extract(pkt, &ip)) {
        nf_drop(pkt, "not IPv4");
        return;
    }
    nf_enqueue(kind, ip.protocol & 15);
    struct item item = {ip.src, eth.type, nf_ntohs(ip.length), nf_hash(1, ip.src)};
    nf_enqueue(account, pkt, item);
}

void kind(uint32_t which) { nf_add_value(&kinds, which, 1); }

void account(nf_pkt pkt, struct item item)
{
    struct seen seen;
    nf_lookup(&sources, item.source, &seen);
    seen.packets = seen.packets + 1;
    seen.bytes = seen.bytes + item.length;
    nf_update(&sources, item.source, seen);
    nf_reset(pkt);
    nf_send(pkt, seen.packets & 1);
}
