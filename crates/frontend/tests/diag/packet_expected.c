// test: check
#include <nicforge.h>

void net_recv(nf_pkt pkt)
{
    nf_send(0, 1);
    nf_drop(pkt);
}
