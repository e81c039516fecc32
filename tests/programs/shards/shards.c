/* A host of two threads: each has the sources whose hash is its own. What is counted by protocol
 * every thread counts for itself; the limits are the same for all. */
#include <nicforge.h>

struct seen {
    uint64_t packets;
    uint64_t bytes;
};

NF_TABLE(hash, sources, nf_be32, struct seen, 1024);
NF_TABLE(hash, longest, nf_be32, uint16_t, 1024);
NF_TABLE(array, protocols, uint32_t, uint64_t, 256);
NF_TABLE(hash, limits, nf_be32, uint64_t, 16);
NF_TABLE(hash, answered, nf_be32, uint64_t, 1024);

void measure(nf_be32 source, uint16_t length);
void account(nf_pkt pkt, nf_be32 source, uint16_t length, uint8_t protocol);
void answer(nf_pkt pkt, nf_be32 source);

void net_recv(nf_pkt pkt)
{
    struct nf_eth eth;
    struct nf_ipv4 ip;
    if (!nf_extract(pkt, &eth) || eth.type != nf_htons(NF_ETH_IPV4) || !nf_extract(pkt, &ip)) {
        nf_drop(pkt, "not IPv4");
        return;
    }
    nf_enqueue(measure, ip.src, nf_ntohs(ip.length));
    nf_enqueue(account, pkt, ip.src, nf_ntohs(ip.length), ip.protocol);
}

NF_ON(host);
NF_MAX_REPLICAS(2);
void measure(nf_be32 source, uint16_t length)
{
    uint16_t most;
    if (!nf_lookup(&longest, source, &most) || most < length)
        nf_update(&longest, source, length);
}

NF_ON(host);
NF_MAX_REPLICAS(2);
void account(nf_pkt pkt, nf_be32 source, uint16_t length, uint8_t protocol)
{
    struct seen seen;
    uint64_t limit;
    nf_add_value(&protocols, protocol, 1);
    nf_lookup(&sources, source, &seen);
    seen.packets = seen.packets + 1;
    seen.bytes = seen.bytes + length;
    nf_update(&sources, source, seen);
    if (!nf_lookup(&limits, source, &limit))
        limit = 8;
    nf_reset(pkt);
    if (seen.packets > limit) {
        nf_enqueue(answer, pkt, source);
        return;
    }
    nf_send(pkt, 1 - nf_port(pkt));
}

void answer(nf_pkt pkt, nf_be32 source)
{
    nf_add_value(&answered, source, 1);
    nf_send(pkt, nf_port(pkt));
}
