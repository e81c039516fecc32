// A copy with a header in front of a packet whose buffer has no room there: pspin put the copy
// where the packet had been moved to. Seed 510074.
#include <nicforge.h>

void net_recv(nf_pkt pkt)
{
    uint8_t one = 0;
    nf_emit(pkt, &one);
    nf_send(nf_clone(pkt), 0);
    nf_send(pkt, nf_port(pkt));
}
