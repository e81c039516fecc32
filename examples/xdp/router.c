/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * router: forwards IPv4 by the routes of the kernel, with a table of ports.
 */
#include "xdp.h"

#define FAMILY_IPV4 2

struct {
    __uint(type, BPF_MAP_TYPE_DEVMAP);
    __uint(max_entries, 64);
    __type(key, __u32);
    __type(value, __u32);
} ports SEC(".maps");

SEC("xdp") int router(struct xdp_md *ctx)
{
    struct packet p = packet_of(ctx);
    struct ethhdr *eth = take(&p, sizeof(*eth));
    struct iphdr *ip = take(&p, sizeof(*ip));
    if (!eth || !ip || eth->h_proto != bpf_htons(ETH_P_IP) || ip->ttl < 2)
        return XDP_PASS;
    struct bpf_fib_lookup route = {
        .family = FAMILY_IPV4,
        .l4_protocol = ip->protocol,
        .tot_len = bpf_ntohs(ip->tot_len),
        .ipv4_src = ip->saddr,
        .ipv4_dst = ip->daddr,
        .ifindex = ctx->ingress_ifindex,
    };
    if (bpf_fib_lookup(ctx, &route, sizeof(route), 0) != BPF_FIB_LKUP_RET_SUCCESS)
        return XDP_PASS;
    __u32 check = ip->check + bpf_htons(0x0100);
    ip->check = check + (check >= 0xffff);
    ip->ttl--;
    __builtin_memcpy(eth->h_dest, route.dmac, 6);
    __builtin_memcpy(eth->h_source, route.smac, 6);
    return bpf_redirect_map(&ports, route.ifindex, XDP_PASS);
}
