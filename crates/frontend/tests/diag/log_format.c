// test: check
#include <nicforge.h>

void net_recv(nf_pkt pkt)
{
    struct nf_eth eth;
    nf_extract(pkt, &eth);
    nf_log("{} of {}", 1);
    nf_log("{}", eth);
    nf_drop(pkt);
}
