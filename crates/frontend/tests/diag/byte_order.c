// test: check
#include <nicforge.h>
static uint16_t host(uint16_t x) { return x; }
static const nf_be16 p = 53;
void net_recv(nf_pkt pkt)
{
    struct nf_eth eth;
    struct nf_ipv4 ip;
    nf_extract(pkt, &eth);
    nf_extract(pkt, &ip);
    if (eth.type == 0x0800) ip.length += 4;
    if (eth.type == NF_HTONS(0x0800) ||
        eth.type == nf_htons(NF_ETH_ARP) || ip.src == 0 || ip.src == 0xffffffff) ip.ttl--;
    if (ip.length > 1500) ip.ttl = 1;
    uint16_t n = ip.length;
    ip.id = n;
    ip.id = ip.length;
    ip.frag &= 0x1fff;
    ip.frag &= NF_HTONS(0x1fff);
    ip.src = (ip.dst & ~NF_HTONL(0xff)) | NF_HTONL(1);
    host(ip.id);
    n = nf_htons(n);
    struct nf_flow f = {1, ip.dst, 2, 0, 3};
    switch (eth.type) {
    case NF_HTONS(0x0800):
        ip.ttl = 3;
        break;
    case 0x86dd:
        ip.ttl = 4;
    }
    ip.csum = nf_csum_fold(nf_csum_add(0, ip));
    uint32_t m = (uint32_t)ip.src + 1;
    ip.src = (nf_be32)m;
    uint32_t hash = nf_hash(1, ip.src);
    ip.id = n ? ip.length : 4;
    nf_drop(pkt);
}
