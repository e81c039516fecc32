// test: check
#include <nicforge.h>

void net_recv(nf_pkt pkt)
{
    if (nf_len(pkt) > 64)
        nf_send(pkt, 0);
    nf_drop(pkt);
}
