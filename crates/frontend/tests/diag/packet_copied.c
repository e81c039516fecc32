// test: check
#include <nicforge.h>
struct held { nf_pkt pkt; };
static nf_pkt same(nf_pkt pkt) { return pkt; }

void net_recv(nf_pkt pkt)
{
    nf_pkt copy = pkt;
    if (pkt == copy)
        nf_drop(copy);
    pkt = copy;
    nf_drop(pkt);
}
