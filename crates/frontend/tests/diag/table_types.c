// test: check
#include <nicforge.h>
NF_TABLE(hash, flows, struct nf_flow, uint64_t, 16);
NF_TABLE(array, stats, uint32_t, uint32_t, 16);

void net_recv(nf_pkt pkt)
{
    struct nf_flow flow = {};
    uint64_t big = nf_now();
    uint32_t small = 0;
    nf_lookup(&flows, small, &big);
    nf_lookup(&flows, flow, &small);
    nf_update(&flows, flow, flow);
    nf_update(&stats, big, small);
    nf_update(&stats, 1, small);
    nf_drop(pkt);
}
