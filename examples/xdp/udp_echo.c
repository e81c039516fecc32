/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * udp_echo: sends datagrams for port 7 back (RFC 862).
 */
#include "xdp.h"

SEC("xdp") int udp_echo(struct xdp_md *ctx)
{
    struct packet p = packet_of(ctx);
    struct ethhdr *eth = take(&p, sizeof(*eth));
    if (!eth)
        return XDP_DROP;
    struct udphdr *udp;
    if (eth->h_proto == bpf_htons(ETH_P_IP)) {
        struct iphdr *ip = take(&p, sizeof(*ip));
        udp = take(&p, sizeof(*udp));
        if (!ip || !udp || ip->ihl != 5 || ip->protocol != IPPROTO_UDP)
            return XDP_PASS;
        if (udp->dest != bpf_htons(7))
            return XDP_PASS;
        __u32 address = ip->saddr;
        ip->saddr = ip->daddr;
        ip->daddr = address;
    } else if (eth->h_proto == bpf_htons(ETH_P_IPV6)) {
        struct ipv6hdr *ip = take(&p, sizeof(*ip));
        udp = take(&p, sizeof(*udp));
        if (!ip || !udp || ip->nexthdr != IPPROTO_UDP || udp->dest != bpf_htons(7))
            return XDP_PASS;
        struct in6_addr address = ip->saddr;
        ip->saddr = ip->daddr;
        ip->daddr = address;
    } else {
        return XDP_PASS;
    }
    __u16 port = udp->source;
    udp->source = udp->dest;
    udp->dest = port;
    __u8 mac[6];
    __builtin_memcpy(mac, eth->h_source, 6);
    __builtin_memcpy(eth->h_source, eth->h_dest, 6);
    __builtin_memcpy(eth->h_dest, mac, 6);
    return XDP_TX;
}
