// test: check
#include <nicforge.h>
static int sum(int n, ...) { return n; }

void net_recv(nf_pkt pkt)
{
    nf_send(pkt, sum(2, 1, 2));
}
