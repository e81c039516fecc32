/* Datagrams for port 7000 get a tag in front: the first 16 bytes of an HMAC-SHA256 over the first
 * 32 bytes of their payload. The NIC side looks at headers, the host side calls OpenSSL. */
#include <nicforge.h>

struct block {
    uint8_t b[32];
};

struct tag {
    uint8_t b[16];
};

/* hmac.c */
extern bool hmac_tag(const struct block *block, struct tag *tag);

NF_PORTS(1);
NF_TABLE(array, signed_bytes, uint32_t, uint64_t, 1);

void sign(nf_pkt pkt);

void net_recv(nf_pkt pkt)
{
    struct nf_eth eth;
    struct nf_ipv4 ip;
    struct nf_udp udp;
    if (!nf_extract(pkt, &eth) || eth.type != nf_htons(NF_ETH_IPV4) || !nf_extract(pkt, &ip) ||
        ip.ihl != 5 || ip.protocol != NF_IP_UDP || !nf_extract(pkt, &udp) ||
        udp.dport != nf_htons(7000)) {
        nf_reset(pkt);
        nf_pass(pkt);
        return;
    }
    nf_enqueue(sign, pkt);
}

NF_ON(host);
void sign(nf_pkt pkt)
{
    struct nf_eth eth;
    struct nf_ipv4 ip;
    struct nf_udp udp;
    struct block block;
    struct tag tag = {0};
    nf_reset(pkt);
    if (!nf_extract(pkt, &eth) || !nf_extract(pkt, &ip) || !nf_extract(pkt, &udp) ||
        !nf_load(pkt, 0, &block)) {
        nf_drop(pkt, "too short to sign");
        return;
    }
    if (!hmac_tag(&block, &tag)) {
        nf_drop(pkt, "OpenSSL refused");
        return;
    }
    nf_add_value(&signed_bytes, 0, sizeof(block));
    ip.length = nf_htons(nf_ntohs(ip.length) + sizeof(tag));
    ip.csum = 0;
    ip.csum = nf_csum_fold(nf_csum_add(0, ip));
    udp.length = nf_htons(nf_ntohs(udp.length) + sizeof(tag));
    udp.csum = 0;
    nf_emit(pkt, &eth);
    nf_emit(pkt, &ip);
    nf_emit(pkt, &udp);
    nf_emit(pkt, &tag);
    nf_send(pkt, nf_port(pkt));
}
