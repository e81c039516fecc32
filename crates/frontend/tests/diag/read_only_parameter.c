// test: check
#include <nicforge.h>
static void set(const int *p) { *(int *)p = 3; }

void net_recv(nf_pkt pkt)
{
    int x = 0;
    set(&x);
    nf_send(pkt, x);
}
