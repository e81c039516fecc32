// test: check
#include <nicforge.h>

void net_recv(nf_pkt pkt)
{
    float rate = 0.5;
    int x = 3 * 1.5;
    if (rate > 1)
        x = 2;
    nf_send(pkt, x);
}
