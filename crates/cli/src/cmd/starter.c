/* NAME: counts packets and bytes per source address and sends every frame back.
 *
 *   nicforge check NAME      what is wrong with it
 *   nicforge run NAME        run it in the kernel on traffic.pcap
 *   nicforge trace NAME      follow one packet through it
 */
#include <nicforge.h>

NF_PORTS(1);

struct usage {
    uint32_t packets;
    uint64_t bytes;
};

/* A table outlives a packet. Kinds: hash, lru, array, lpm, ternary. */
NF_TABLE(hash, by_source, nf_be32, struct usage, 1024);

/* Runs for every packet that comes in, as if it were alone. */
void net_recv(nf_pkt pkt)
{
    struct nf_eth eth;
    struct nf_ipv4 ip;

    /* extract reads a header and moves on; it fails if the packet is too short. */
    if (!nf_extract(pkt, &eth)) {
        nf_drop(pkt, "shorter than an Ethernet header");
        return;
    }
    if (eth.type != nf_htons(NF_ETH_IPV4)) {
        nf_reset(pkt); /* the whole frame, as it came */
        nf_pass(pkt);  /* to the operating system */
        return;
    }
    if (!nf_extract(pkt, &ip)) {
        nf_drop(pkt, "shorter than an IPv4 header");
        return;
    }

    nf_add(&by_source, ip.src, packets, 1);
    nf_add(&by_source, ip.src, bytes, nf_ntohs(ip.length));

    nf_mac sender = eth.src;
    eth.src = eth.dst;
    eth.dst = sender;

    /* What was extracted goes back in front of the rest. */
    nf_emit(pkt, &eth);
    nf_emit(pkt, &ip);
    nf_send(pkt, nf_port(pkt));
}
