// test: check
#include <nicforge.h>
static int twice(int x) { return 2 * x; }

void net_recv(nf_pkt pkt)
{
    int (*f)(int) = twice;
    nf_send(pkt, f(1));
}
