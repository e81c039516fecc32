// test: lower
// A learning bridge: structs by value, early returns, a table, port arithmetic.
#include <nicforge.h>

NF_TABLE(lru, hosts, nf_mac, uint32_t, 1024);

void net_recv(nf_pkt pkt)
{
    struct nf_eth eth;
    if (!nf_extract(pkt, &eth)) {
        nf_drop(pkt, "too short");
        return;
    }
    nf_update(&hosts, eth.src, nf_port(pkt));
    uint32_t port;
    if (!nf_lookup(&hosts, eth.dst, &port))
        port = nf_port(pkt) == 0 ? 1 : 0;
    nf_emit(pkt, &eth);
    nf_send(pkt, port);
}
