// test: check
// A pointer leads to one object.
#include <nicforge.h>

struct wide { uint64_t all; };

static uint8_t before(const uint8_t *at, const uint8_t *end)
{
    return at < end;
}

void net_recv(nf_pkt pkt)
{
    struct nf_eth eth, other;
    uint32_t *q = 0;
    struct nf_eth *either = nf_len(pkt) ? &eth : &other;
    struct nf_eth *later;
    uint8_t *turned = eth.dst.b;
    uint32_t at = nf_len(pkt);
    uint8_t *indexed = &eth.dst.b[at];
    uint16_t *wide;
    later = &eth;
    later = &other;
    turned = eth.src.b;
    wide = (uint16_t *)indexed;
    wide++;
    eth.type = (uint16_t)((struct wide *)&eth.type)->all + before(turned, indexed) + *wide;
    nf_drop(pkt);
}
