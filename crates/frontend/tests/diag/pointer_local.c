// test: check
// A pointer is a name for one place: set once, where it is declared.
#include <nicforge.h>

struct wide { uint64_t all; };

void net_recv(nf_pkt pkt)
{
    struct nf_eth eth, other;
    uint32_t *q = 0;
    struct nf_eth *either = nf_len(pkt) ? &eth : &other;
    struct nf_eth *later;
    struct nf_eth *moved = &eth;
    uint32_t at = nf_len(pkt);
    uint8_t *indexed = &eth.dst.b[at];
    later = &eth;
    moved++;
    eth.type = (uint16_t)((struct wide *)&eth.type)->all;
    nf_drop(pkt);
}
