// test: check
#include <nicforge.h>

void net_recv(nf_pkt pkt)
{
    int x = ({ int y = 1; y + 1; });
    nf_send(pkt, x);
}
