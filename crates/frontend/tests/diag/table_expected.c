// test: check
#include <nicforge.h>
NF_TABLE(array, stats, uint32_t, uint32_t, 16);

void net_recv(nf_pkt pkt)
{
    uint32_t x = 0;
    nf_contains(&x, 1u);
    nf_contains(&stats);
    x = sizeof stats;
    nf_drop(pkt);
}
