// test: check
// It has to be seen where a pointer leads.
#include <nicforge.h>

struct wide { uint64_t all; };

static uint8_t before(const uint8_t *at, const uint8_t *end)
{
    return at < end;
}

static uint32_t *own(void)
{
    uint32_t local = 5;
    return &local;
}

void net_recv(nf_pkt pkt)
{
    struct nf_eth eth, other;
    uint32_t *nowhere = 0;
    struct nf_eth *a = &eth, *b = &other, *swapped = a;
    uint8_t *turned = eth.dst.b, **to_pointer = &turned;
    uint16_t *wide;
    a = b;
    b = swapped;
    swapped = a;
    wide = (uint16_t *)&other.src.b[nf_len(pkt)];
    wide++;
    eth.type = (uint16_t)((struct wide *)&eth.type)->all + before(eth.src.b, eth.dst.b) + *wide;
    nf_send(pkt, *nowhere + **to_pointer + *own());
}
