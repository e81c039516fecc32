/* A handler that sends to itself, until its event has gone round often enough. */
#include <nicforge.h>

NF_TABLE(array, rounds, uint32_t, uint64_t, 16);

void again(nf_pkt pkt, uint32_t left, uint32_t sum);

void net_recv(nf_pkt pkt)
{
    struct nf_eth eth;
    struct nf_ipv4 ip;
    if (!nf_extract(pkt, &eth) || eth.type != nf_htons(NF_ETH_IPV4) || !nf_extract(pkt, &ip)) {
        nf_drop(pkt, "not IPv4");
        return;
    }
    nf_enqueue(again, pkt, (uint32_t)(nf_ntohl(ip.src) & 3), 0);
}

void again(nf_pkt pkt, uint32_t left, uint32_t sum)
{
    nf_add_value(&rounds, left, 1);
    if (left > 0) {
        nf_enqueue(again, pkt, left - 1, sum + nf_random());
        return;
    }
    nf_emit(pkt, &sum);
    nf_send(pkt, sum & 1);
}
