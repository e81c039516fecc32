// test: check
#include <nicforge.h>

void net_recv(nf_pkt pkt)
{
    volatile int x = 1;
    _Atomic int y;
    nf_send(pkt, x);
}
