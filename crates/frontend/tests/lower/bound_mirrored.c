// test: lower
#include <nicforge.h>

/* The counter is on the right of the comparison: a constant, and a value that a call gives, on its left. */
NF_PORTS(1);

void net_recv(nf_pkt pkt)
{
    struct nf_eth eth;
    uint32_t sum = 0;
    uint8_t n = 0;
    if (!nf_extract(pkt, &eth)) {
        nf_drop(pkt, "short");
        return;
    }
    for (uint32_t i = 0; 10 > i; i++)
        sum += i;
    while ((nf_ntohs(eth.type) & 15) > n)
        n++;
    sum += n;
    nf_emit(pkt, &sum);
    nf_send(pkt, 0);
}
