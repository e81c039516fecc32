// test: check
#include <nicforge.h>
static void swap(uint32_t *a, uint32_t *b)
{
    uint32_t t = *a;
    *a = *b;
    *b = t;
}

void net_recv(nf_pkt pkt)
{
    uint32_t x = 1;
    swap(&x, &x);
    nf_send(pkt, x);
}
