// test: check
#include <nicforge.h>
static bool check(nf_pkt pkt)
{
    struct nf_eth eth;
    if (!nf_extract(pkt, &eth)) {
        nf_drop(pkt);
        return false;
    }
    return true;
}

void net_recv(nf_pkt pkt)
{
    if (!check(pkt))
        return;
    nf_send(pkt, 0);
}
