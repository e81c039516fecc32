// test: check
#include <nicforge.h>
NF_TABLE(hash, none, uint32_t, uint32_t, 0);
NF_TABLE(hash, huge, uint32_t, uint32_t, 2000000000);
NF_TABLE(array, stats, uint16_t, uint32_t, 4);

void net_recv(nf_pkt pkt)
{
    nf_drop(pkt);
}
