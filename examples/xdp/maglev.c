/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * maglev: sends UDP flows to servers by a table of consistent hashing.
 */
#include "xdp.h"

struct server {
    __u8 mac[6];
    __u16 interface;
};

TABLE(places, __u32, 251);
TABLE(servers, struct server, 8);

SEC("xdp") int maglev(struct xdp_md *ctx)
{
    struct packet p = packet_of(ctx);
    struct ethhdr *eth = take(&p, sizeof(*eth));
    struct iphdr *ip = take(&p, sizeof(*ip));
    if (!eth || !ip || eth->h_proto != bpf_htons(ETH_P_IP) || ip->protocol != IPPROTO_UDP)
        return XDP_PASS;
    struct udphdr *udp = take(&p, sizeof(*udp));
    if (!udp || ip->ihl != 5 || ip->frag_off & bpf_htons(0x3fff))
        return XDP_DROP;
    __u32 hash = mix(mix(ip->saddr, ip->daddr), udp->source | (__u32)udp->dest << 16);
    __u32 place = hash % 251;
    __u32 *number = bpf_map_lookup_elem(&places, &place);
    if (!number)
        return XDP_DROP;
    struct server *server = bpf_map_lookup_elem(&servers, number);
    if (!server)
        return XDP_DROP;
    __builtin_memcpy(eth->h_source, eth->h_dest, 6);
    __builtin_memcpy(eth->h_dest, server->mac, 6);
    if (server->interface == 0)
        return XDP_TX;
    return bpf_redirect(server->interface, 0);
}
