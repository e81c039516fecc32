/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * flow_numbers: answers UDP with the number of the datagram in its flow, so an answer shows whether
 * the flow's state was there, and whether it got every datagram in order.
 */
#include <nicforge.h>

NF_PORTS(1);

struct flow {
    nf_be32 src;
    nf_be32 dst;
    nf_be16 src_port;
    nf_be16 dst_port;
};

struct number {
    uint64_t number;
};

NF_TABLE(hash, flows, struct flow, uint64_t, 4096);

void net_recv(nf_pkt pkt)
{
    struct nf_eth eth;
    struct nf_ipv4 ip;
    struct nf_udp udp;
    struct number asked;

    if (!nf_extract(pkt, &eth) || eth.type != nf_htons(NF_ETH_IPV4) || !nf_extract(pkt, &ip) ||
        ip.protocol != NF_IP_UDP || ip.ihl != 5 || !nf_extract(pkt, &udp) ||
        !nf_extract(pkt, &asked)) {
        nf_drop(pkt, "no datagram with a number");
        return;
    }
    struct flow flow = {ip.src, ip.dst, udp.sport, udp.dport};
    uint64_t seen;
    nf_lookup(&flows, flow, &seen);
    seen++;
    nf_update(&flows, flow, seen);

    struct number answer = {seen};
    struct nf_udp back = {udp.dport, udp.sport, udp.length, 0};
    nf_be32 us = ip.dst;
    nf_mac sender = eth.src;
    ip.dst = ip.src;
    ip.src = us;
    eth.src = eth.dst;
    eth.dst = sender;
    nf_emit(pkt, &eth);
    nf_emit(pkt, &ip);
    nf_emit(pkt, &back);
    nf_emit(pkt, &answer);
    nf_send(pkt, 0);
}
