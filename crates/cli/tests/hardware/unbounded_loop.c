// test: build unbounded_loop.c --target u280
#include <nicforge.h>
NF_PORTS(1);
void net_recv(nf_pkt pkt)
{
    uint16_t n = 0;
    struct nf_eth eth;
    if (!nf_extract(pkt, &eth)) {
        nf_drop(pkt, "short");
        return;
    }
    while (nf_ntohs(eth.type) != n)
        n++;
    nf_emit(pkt, &eth);
    nf_send(pkt, 0);
}
