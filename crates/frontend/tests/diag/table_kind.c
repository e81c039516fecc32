// test: check
#include <nicforge.h>
NF_TABLE(btree, flows, uint32_t, uint32_t, 16);

void net_recv(nf_pkt pkt)
{
    nf_drop(pkt);
}
