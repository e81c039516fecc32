// test: check
#include <nicforge.h>

void net_recv(nf_pkt pkt)
{
    NF_TABLE(hash, inside, uint32_t, uint32_t, 4);
    nf_contains(&inside, 1u);
    nf_drop(pkt);
}
