/* A cache on the NIC side, filled by the host: what a source is worth is asked there once and
 * answered from the NIC's table after. */
#include <nicforge.h>

NF_TABLE(lru, cache, nf_be32, uint64_t, 256);
NF_TABLE(hash, known, nf_be32, uint64_t, 4096);

void ask(nf_pkt pkt, nf_be32 source);
void fill(nf_pkt pkt, nf_be32 source, uint64_t worth);

void net_recv(nf_pkt pkt)
{
    struct nf_eth eth;
    struct nf_ipv4 ip;
    if (!nf_extract(pkt, &eth) || eth.type != nf_htons(NF_ETH_IPV4) || !nf_extract(pkt, &ip)) {
        nf_drop(pkt, "not IPv4");
        return;
    }
    uint64_t worth;
    if (nf_lookup(&cache, ip.src, &worth)) {
        nf_reset(pkt);
        nf_emit(pkt, &worth);
        nf_send(pkt, nf_port(pkt));
        return;
    }
    nf_enqueue(ask, pkt, ip.src);
}

NF_ON(host);
void ask(nf_pkt pkt, nf_be32 source)
{
    uint64_t times;
    nf_lookup(&known, source, &times);
    nf_update(&known, source, times + 1);
    nf_enqueue(fill, pkt, source, nf_hash(7, source) + times);
}

/* Packets may come in between question and answer, and ask again. */
NF_UNORDERED
void fill(nf_pkt pkt, nf_be32 source, uint64_t worth)
{
    nf_update(&cache, source, worth);
    nf_reset(pkt);
    nf_emit(pkt, &worth);
    nf_send(pkt, nf_port(pkt));
}
