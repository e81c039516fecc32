// test: check
#include <nicforge.h>
NF_ON(moon)
NF_MAX_REPLICAS(4)
static int helper(int x) { return x; }
NF_UNORDERED
NF_TABLE(array, stats, uint32_t, uint32_t, 16);
NF_PORTS(100000);
NF_QUEUE(16, burns)

NF_BY_NUMBER
NF_TABLE(hash, counts, uint32_t, uint32_t, 16);

NF_SHARED
NF_TABLE(array, small, uint32_t, uint32_t, 16);

NF_QUEUE(16, waits)
void net_recv(nf_pkt pkt)
{
    nf_drop(pkt);
}

NF_BY_NUMBER
void host_send(struct nf_flow flow)
{
    (void)flow;
}
