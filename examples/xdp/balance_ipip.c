/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * balance_ipip: a layer 4 load balancer: packets go to servers inside IPv4 (RFC 2003).
 */
#include "xdp.h"

struct server {
    __u32 address;
    __u8 mac[6];
};

TABLE(servers, struct server, 16);

#define SERVICE bpf_htonl(0x0a000102)

SEC("xdp") int balance_ipip(struct xdp_md *ctx)
{
    struct packet p = packet_of(ctx);
    struct ethhdr *eth = take(&p, sizeof(*eth));
    struct iphdr *ip = take(&p, sizeof(*ip));
    if (!eth || !ip || eth->h_proto != bpf_htons(ETH_P_IP) || ip->daddr != SERVICE)
        return XDP_PASS;
    __u32 slot = mix(mix(7, ip->saddr), ip->protocol) % 16;
    struct server *server = bpf_map_lookup_elem(&servers, &slot);
    if (!server)
        return XDP_DROP;
    struct ethhdr old = *eth;
    __u16 length = bpf_ntohs(ip->tot_len);
    if (bpf_xdp_adjust_head(ctx, -(int)sizeof(*ip)))
        return XDP_ABORTED;
    p = packet_of(ctx);
    eth = take(&p, sizeof(*eth));
    struct iphdr *outer = take(&p, sizeof(*outer));
    if (!eth || !outer)
        return XDP_ABORTED;
    *eth = old;
    __builtin_memcpy(eth->h_source, old.h_dest, 6);
    __builtin_memcpy(eth->h_dest, server->mac, 6);
    outer->version = 4;
    outer->ihl = 5;
    outer->tos = 0;
    outer->tot_len = bpf_htons(length + sizeof(*outer));
    outer->id = 0;
    outer->frag_off = 0;
    outer->ttl = 64;
    outer->protocol = IPPROTO_IPIP;
    outer->check = 0;
    outer->saddr = SERVICE;
    outer->daddr = server->address;
    __u32 sum = 0;
    __u16 *words = (__u16 *)outer;
#pragma clang loop unroll(full)
    for (int i = 0; i < 10; i++)
        sum += words[i];
    outer->check = folded(sum);
    return XDP_TX;
}
