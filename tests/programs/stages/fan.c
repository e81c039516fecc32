/* A stage for each kind of packet. A table of more rows than are compared at once keeps them from
 * being a pipe. */
#include <nicforge.h>

NF_TABLE(array, ports, uint32_t, uint64_t, 65536);
struct pair {
    nf_be32 src, dst;
};

NF_TABLE(ternary, trusted, struct pair, uint32_t, 8192);
NF_TABLE(hash, sources, nf_be32, uint32_t, 1024);

void tcp(nf_pkt pkt, nf_be32 source);
void udp(nf_pkt pkt);

void net_recv(nf_pkt pkt)
{
    struct nf_eth eth;
    struct nf_ipv4 ip;
    if (!nf_extract(pkt, &eth) || eth.type != nf_htons(NF_ETH_IPV4) || !nf_extract(pkt, &ip)) {
        nf_drop(pkt, "not IPv4");
        return;
    }
    if (ip.protocol == 17)
        nf_enqueue(udp, pkt);
    else if (ip.protocol == 6)
        nf_enqueue(tcp, pkt, ip.src);
    else
        nf_send(pkt, 1);
    nf_log("protocol {}", (uint32_t)ip.protocol);
}

void tcp(nf_pkt pkt, nf_be32 source)
{
    struct pair pair = {source, 0};
    uint32_t trust, seen;
    nf_lookup(&trusted, pair, &trust);
    nf_lookup(&sources, source, &seen);
    nf_update(&sources, source, seen + 1);
    nf_reset(pkt);
    nf_send(pkt, (seen + trust) & 1);
}

void udp(nf_pkt pkt)
{
    struct nf_udp udp;
    if (!nf_extract(pkt, &udp)) {
        nf_drop(pkt, "short UDP");
        return;
    }
    uint32_t port = nf_ntohs(udp.dport);
    uint64_t packets;
    nf_lookup(&ports, port, &packets);
    packets = packets + 1;
    nf_update(&ports, port, packets);
    nf_reset(pkt);
    nf_send(pkt, packets & 1);
}
