// test: check
#include <nicforge.h>

NF_PORTS(0);

NF_QUEUE(0, waits)
void later(uint32_t a);

NF_MAX_REPLICAS(1 - 1)
void net_recv(nf_pkt pkt)
{
    nf_drop(pkt);
}

NF_TIMER(0)
void tick(void) {}

_Static_assert(sizeof(int) == 8, "a user's own");
