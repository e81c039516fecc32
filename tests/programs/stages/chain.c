/* Two stages: the packet goes on with what was read of it, and its first handler has something to
 * say afterwards. */
#include <nicforge.h>

struct item {
    nf_be32 source;
    uint16_t length;
    uint8_t protocol;
};

void answer(nf_pkt pkt, struct item item);

void net_recv(nf_pkt pkt)
{
    struct nf_eth eth;
    struct nf_ipv4 ip;
    if (!nf_extract(pkt, &eth) || eth.type != nf_htons(NF_ETH_IPV4) || !nf_extract(pkt, &ip)) {
        nf_drop(pkt, "not IPv4");
        return;
    }
    struct item item = {ip.src, nf_ntohs(ip.length), ip.protocol};
    nf_emit(pkt, &eth);
    nf_enqueue(answer, pkt, item);
    nf_log("{} bytes", (uint32_t)item.length);
}

void answer(nf_pkt pkt, struct item item)
{
    if (item.protocol == 1) {
        nf_drop(pkt, "ICMP");
        return;
    }
    uint32_t number = nf_random();
    nf_emit(pkt, &item.source);
    nf_emit(pkt, &number);
    nf_send(pkt, item.length & 1);
}
