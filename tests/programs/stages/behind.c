/* A table that changes behind a stage with a table that changes; what the second one finds depends
 * on the order of all packets. */
#include <nicforge.h>

struct flow {
    uint64_t packets;
    uint64_t mix;
};

NF_TABLE(lru, recent, nf_be32, uint32_t, 16);
NF_TABLE(hash, flows, nf_be16, struct flow, 8);

void account(nf_pkt pkt, uint32_t count, nf_be16 port);

void net_recv(nf_pkt pkt)
{
    struct nf_eth eth;
    struct nf_ipv4 ip;
    struct nf_udp udp;
    if (!nf_extract(pkt, &eth) || eth.type != nf_htons(NF_ETH_IPV4) || !nf_extract(pkt, &ip) ||
        !nf_extract(pkt, &udp)) {
        nf_drop(pkt, "short");
        return;
    }
    uint32_t count;
    nf_lookup(&recent, ip.src, &count);
    nf_update(&recent, ip.src, count + 1);
    nf_reset(pkt);
    nf_enqueue(account, pkt, count, udp.dport);
    nf_log("count {}", count);
}

void account(nf_pkt pkt, uint32_t count, nf_be16 port)
{
    struct flow flow;
    nf_lookup(&flows, port, &flow);
    flow.packets = flow.packets + 1;
    flow.mix = flow.mix * 7 + count;
    if (!nf_update(&flows, port, flow)) {
        nf_pass(pkt);
        return;
    }
    uint8_t low = (uint8_t)flow.mix;
    nf_emit(pkt, &low);
    nf_send(pkt, flow.packets & 1);
}
