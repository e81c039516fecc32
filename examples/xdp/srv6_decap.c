/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * srv6_decap: takes IPv6 and its list of segments, however long, off packets for a local segment
 * (RFC 8986, section 4.6: End.DT6).
 */
#include "xdp.h"

struct routing {
    __u8 next, length, type, left, last, flags;
    __be16 tag;
};

struct address {
    __u64 high, low;
};

struct {
    __uint(type, BPF_MAP_TYPE_HASH);
    __uint(max_entries, 64);
    __type(key, struct address);
    __type(value, __u64);
} local SEC(".maps");

SEC("xdp") int srv6_decap(struct xdp_md *ctx)
{
    struct packet p = packet_of(ctx);
    struct ethhdr *eth = take(&p, sizeof(*eth));
    struct ipv6hdr *ip = take(&p, sizeof(*ip));
    struct routing *routing = take(&p, sizeof(*routing));
    if (!eth || !ip || !routing || eth->h_proto != bpf_htons(ETH_P_IPV6))
        return XDP_PASS;
    if (ip->nexthdr != IPPROTO_ROUTING || routing->type != 4 || routing->left)
        return XDP_PASS;
    struct address here;
    __builtin_memcpy(&here, &ip->daddr, sizeof(here));
    __u64 *count = bpf_map_lookup_elem(&local, &here);
    if (!count)
        return XDP_PASS;
    if (routing->next != IPPROTO_IPV6)
        return XDP_DROP;
    ++*count;
    struct ethhdr kept = *eth;
    int bytes = sizeof(*eth) + sizeof(*ip) + 8 * (routing->length + 1);
    if (bpf_xdp_adjust_head(ctx, bytes) || bpf_xdp_adjust_head(ctx, -(int)sizeof(*eth)))
        return XDP_DROP;
    p = packet_of(ctx);
    eth = take(&p, sizeof(*eth));
    if (!eth)
        return XDP_ABORTED;
    *eth = kept;
    return XDP_PASS;
}
