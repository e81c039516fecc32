// test: check
#include <nicforge.h>

void later(nf_pkt pkt);

void net_recv(nf_pkt pkt)
{
    nf_pkt copy = nf_clone(pkt);
    nf_enqueue(later, nf_clone(pkt));
    nf_send(copy, 1);
    nf_pass(nf_clone(pkt));
    nf_drop(pkt);
}

void later(nf_pkt pkt)
{
    nf_drop(pkt);
}
