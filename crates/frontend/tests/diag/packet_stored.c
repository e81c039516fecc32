// test: check
#include <nicforge.h>
struct held { nf_pkt pkt; };

void net_recv(nf_pkt pkt)
{
    struct held h = { pkt };
    nf_drop(pkt);
}
