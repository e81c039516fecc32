// test: build opaque.c --target u280
#include <nicforge.h>
NF_PORTS(1);
extern uint32_t secret(uint32_t number);
void net_recv(nf_pkt pkt)
{
    struct nf_eth eth;
    if (!nf_extract(pkt, &eth)) {
        nf_drop(pkt, "short");
        return;
    }
    eth.type = nf_htons(secret(nf_ntohs(eth.type)));
    nf_emit(pkt, &eth);
    nf_send(pkt, 0);
}
