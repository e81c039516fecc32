// test: check
#include <nicforge.h>

void net_recv(nf_pkt pkt)
{
    for (int i = 0; i < 2; i++)
        nf_send(pkt, i);
}
