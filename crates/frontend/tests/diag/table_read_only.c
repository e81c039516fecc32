// test: check
#include <nicforge.h>
NF_TABLE(lpm, routes, nf_be32, uint32_t, 16);
NF_TABLE(array, stats, uint32_t, uint32_t, 16);

void net_recv(nf_pkt pkt)
{
    nf_delete(&routes, (nf_be32)0);
    nf_delete(&stats, 1u);
    uint32_t value;
    nf_lookup_bits(&stats, 1u, 8, &value);
    nf_drop(pkt);
}
