// nicforge check
#include <nicforge.h>
NF_ON(moon)
NF_MAX_REPLICAS(4)
static int helper(int x) { return x; }
NF_UNORDERED
NF_TABLE(array, stats, uint32_t, uint32_t, 16);
NF_PORTS(100000);
NF_QUEUE(16, burns)

NF_QUEUE(16, waits)
void net_recv(nf_pkt pkt)
{
    nf_drop(pkt);
}
