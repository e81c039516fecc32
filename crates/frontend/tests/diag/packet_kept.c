// test: check
#include <nicforge.h>

void net_recv(nf_pkt pkt)
{
    struct nf_eth eth;
    if (!nf_extract(pkt, &eth))
        return;
    nf_send(pkt, 0);
}
