// nicforge check
#include <nicforge.h>
NF_TABLE(array, stats, uint32_t, uint32_t, 16);

void net_recv(nf_pkt pkt)
{
    uint32_t x = *stats.key;
    nf_drop(pkt);
}
