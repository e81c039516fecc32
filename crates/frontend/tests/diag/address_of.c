// test: check
#include <nicforge.h>

void net_recv(nf_pkt pkt)
{
    int x = 1;
    uint64_t a = (uint64_t)&x;
    &x;
    if (&x)
        a++;
    nf_send(pkt, a);
}
