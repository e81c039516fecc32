// test: lower
// Struct parameters and results, pointer parameters as value in and value out, packet parameters, early returns.
#include <nicforge.h>

struct counter {
    uint32_t hits;
    uint32_t misses;
};

static void count(struct counter *c, bool hit)
{
    if (hit) {
        c->hits++;
        return;
    }
    c->misses++;
}

static void count_twice(struct counter *c, const bool *hit)
{
    count(c, *hit);
    count(c, *hit);
}

static nf_mac swapped(nf_mac mac)
{
    uint8_t first = mac.b[0];
    mac.b[0] = mac.b[5];
    mac.b[5] = first;
    return mac;
}

static void finish(nf_pkt pkt, const struct nf_eth *eth, uint32_t port)
{
    nf_emit(pkt, eth);
    nf_send(pkt, port);
}

static bool parse(nf_pkt pkt, struct nf_eth *eth)
{
    return nf_extract(pkt, eth) && eth->type == NF_HTONS(NF_ETH_IPV4);
}

void net_recv(nf_pkt pkt)
{
    struct nf_eth eth;
    if (!parse(pkt, &eth)) {
        nf_drop(pkt, "not IPv4");
        return;
    }
    struct counter counts[2];
    bool hit = eth.src.b[0] > 3;
    count_twice(&counts[hit], &hit);
    eth.dst = swapped(eth.dst);
    finish(pkt, &eth, counts[1].hits);
}
