// test: check
#include <nicforge.h>
static uint64_t packets;
int limit = 3;

void net_recv(nf_pkt pkt)
{
    packets++;
    nf_send(pkt, packets);
}
