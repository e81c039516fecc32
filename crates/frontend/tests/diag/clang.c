// test: check
#include <nicforge.h>

void net_recv(nf_pkt pkt)
{
    int x = y;
    struct nf_eth eth;
    eth.typ = 3;
    nf_drop(pkt)
}
