/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * srv6_encap: puts IPv6 packets into IPv6 with a list of segments, by their destination's /64
 * (RFC 8986, section 5.1: H.Encaps).
 */
#include "xdp.h"

#define MOST 4

struct routing {
    __u8 next, length, type, left, last, flags;
    __be16 tag;
};

struct segment {
    __u32 words[4];
};

struct policy {
    __u32 count;
    struct segment source;
    struct segment segments[MOST];
};

struct {
    __uint(type, BPF_MAP_TYPE_HASH);
    __uint(max_entries, 64);
    __type(key, __u64);
    __type(value, struct policy);
} policies SEC(".maps");

SEC("xdp") int srv6_encap(struct xdp_md *ctx)
{
    struct packet p = packet_of(ctx);
    struct ethhdr *eth = take(&p, sizeof(*eth));
    struct ipv6hdr *ip = take(&p, sizeof(*ip));
    if (!eth || !ip || eth->h_proto != bpf_htons(ETH_P_IPV6))
        return XDP_PASS;
    __u64 network;
    __builtin_memcpy(&network, &ip->daddr, sizeof(network));
    struct policy *policy = bpf_map_lookup_elem(&policies, &network);
    if (!policy)
        return XDP_PASS;
    __u32 count = policy->count;
    if (count < 1 || count > MOST)
        return XDP_DROP;
    struct ethhdr kept = *eth;
    __u16 length = bpf_ntohs(ip->payload_len) + sizeof(*ip);
    int routing_bytes = sizeof(struct routing) + count * sizeof(struct segment);
    if (bpf_xdp_adjust_head(ctx, -(int)(sizeof(*ip) + routing_bytes)))
        return XDP_DROP;
    p = packet_of(ctx);
    eth = take(&p, sizeof(*eth));
    ip = take(&p, sizeof(*ip));
    struct routing *routing = take(&p, sizeof(*routing));
    if (!eth || !ip || !routing)
        return XDP_ABORTED;
    *eth = kept;
    *(__be32 *)ip = bpf_htonl(6u << 28);
    ip->payload_len = bpf_htons(length + routing_bytes);
    ip->nexthdr = IPPROTO_ROUTING;
    ip->hop_limit = 64;
    __builtin_memcpy(&ip->saddr, &policy->source, sizeof(policy->source));
    __builtin_memcpy(&ip->daddr, &policy->segments[0], sizeof(struct segment));
    routing->next = IPPROTO_IPV6;
    routing->length = routing_bytes / 8 - 1;
    routing->type = 4;
    routing->left = count - 1;
    routing->last = count - 1;
    routing->flags = 0;
    routing->tag = 0;
    /* The last segment comes first. */
    for (__u32 i = 0; i < MOST; i++) {
        if (i == count)
            break;
        struct segment *segment = take(&p, sizeof(*segment));
        __u32 from = (count - 1 - i) & (MOST - 1);
        if (!segment)
            return XDP_ABORTED;
        *segment = policy->segments[from];
    }
    return XDP_TX;
}
