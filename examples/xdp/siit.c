/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * siit: IPv6 to IPv4 without state (RFC 7915) for UDP between addresses under 64:ff9b::/96.
 */
#include "xdp.h"

SEC("xdp") int siit(struct xdp_md *ctx)
{
    struct packet p = packet_of(ctx);
    struct ethhdr *eth = take(&p, sizeof(*eth));
    struct ipv6hdr *old = take(&p, sizeof(*old));
    if (!eth || !old || eth->h_proto != bpf_htons(ETH_P_IPV6) || old->nexthdr != IPPROTO_UDP)
        return XDP_PASS;
    if (old->hop_limit < 2)
        return XDP_DROP;
    struct ethhdr kept = *eth;
    struct iphdr ip = {
        .version = 4,
        .ihl = 5,
        .tos = old->priority << 4 | old->flow_lbl[0] >> 4,
        .tot_len = bpf_htons(bpf_ntohs(old->payload_len) + sizeof(ip)),
        .frag_off = bpf_htons(0x4000),
        .ttl = old->hop_limit - 1,
        .protocol = IPPROTO_UDP,
        .saddr = old->saddr.in6_u.u6_addr32[3],
        .daddr = old->daddr.in6_u.u6_addr32[3],
    };
    __u32 sum = 0;
    __u16 *words = (__u16 *)&ip;
#pragma clang loop unroll(full)
    for (int i = 0; i < 10; i++)
        sum += words[i];
    ip.check = folded(sum);
    if (bpf_xdp_adjust_head(ctx, sizeof(*old) - sizeof(ip)))
        return XDP_DROP;
    p = packet_of(ctx);
    eth = take(&p, sizeof(*eth));
    struct iphdr *new = take(&p, sizeof(*new));
    if (!eth || !new)
        return XDP_ABORTED;
    *eth = kept;
    eth->h_proto = bpf_htons(ETH_P_IP);
    *new = ip;
    return XDP_TX;
}
