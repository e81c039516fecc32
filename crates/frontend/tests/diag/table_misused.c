// test: check
#include <nicforge.h>
NF_TABLE(array, stats, uint32_t, uint32_t, 16);
static void helper(const void *table) {}

void net_recv(nf_pkt pkt)
{
    uint32_t x = *stats.key;
    stats;
    helper(&stats);
    nf_drop(pkt);
}
