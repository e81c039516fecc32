/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * flow_stats: packets per flow in a count-min sketch (Cormode and Muthukrishnan 2005), and exact
 * counts from then on for flows that it estimates to be heavy. All frames pass unchanged to the
 * other port.
 */
#include <nicforge.h>

NF_PORTS(2);

#define ROWS 4
#define WIDTH 16384
#define HEAVY 64

struct heavy {
    uint32_t packets;
    uint64_t bytes;
};

NF_TABLE(array, sketch, uint32_t, uint32_t, 65536);
NF_TABLE(hash, heavy_hitters, struct nf_flow, struct heavy, 4096);

void net_recv(nf_pkt pkt)
{
    struct nf_eth eth;
    struct nf_ipv4 ip;
    struct ports {
        nf_be16 source;
        nf_be16 destination;
    } ports;
    uint32_t out = 1 - (nf_port(pkt) & 1);

    if (!nf_extract(pkt, &eth)) {
        nf_drop(pkt, "shorter than an Ethernet header");
        return;
    }
    if (eth.type != nf_htons(NF_ETH_IPV4)) {
        nf_reset(pkt);
        nf_send(pkt, out);
        return;
    }
    if (!nf_extract(pkt, &ip)) {
        nf_drop(pkt, "shorter than an IPv4 header");
        return;
    }
    struct nf_flow flow = {0};
    flow.src = ip.src;
    flow.dst = ip.dst;
    flow.protocol = ip.protocol;
    /* Fragments count by address: only the first has ports. */
    bool whole = (ip.frag & nf_htons(NF_IPV4_MORE | NF_IPV4_OFFSET)) == 0;
    if (whole && ip.ihl == 5 && (ip.protocol == NF_IP_TCP || ip.protocol == NF_IP_UDP)) {
        if (nf_extract(pkt, &ports)) {
            flow.sport = ports.source;
            flow.dport = ports.destination;
        }
    }

    uint32_t estimate = 0xffffffff;
    for (uint32_t row = 0; row < ROWS; row++) {
        uint32_t cell = row * WIDTH + nf_hash(row, flow) % WIDTH;
        uint32_t count;
        nf_add_value(&sketch, cell, 1);
        nf_lookup(&sketch, cell, &count);
        if (count < estimate)
            estimate = count;
    }
    if (estimate >= HEAVY) {
        nf_add(&heavy_hitters, flow, packets, 1);
        nf_add(&heavy_hitters, flow, bytes, nf_ntohs(ip.length));
    }
    nf_reset(pkt);
    nf_send(pkt, out);
}
