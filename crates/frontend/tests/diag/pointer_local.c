// test: check
#include <nicforge.h>

void net_recv(nf_pkt pkt)
{
    struct nf_eth eth;
    struct nf_eth *p = &eth;
    uint32_t *q = 0;
    p->type = 0;
    nf_drop(pkt);
}
