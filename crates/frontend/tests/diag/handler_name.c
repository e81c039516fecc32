// test: check
#include <nicforge.h>

void net_rcv(nf_pkt pkt)
{
    nf_drop(pkt);
}
