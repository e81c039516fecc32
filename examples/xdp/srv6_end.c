/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * srv6_end: an end point of segment routing over IPv6 (RFC 8986, section 4.1).
 */
#include "xdp.h"

struct routing {
    __u8 next, length, type, left, last, flags;
    __be16 tag;
};

struct segment {
    __u32 words[4];
};

SEC("xdp") int srv6_end(struct xdp_md *ctx)
{
    struct packet p = packet_of(ctx);
    struct ethhdr *eth = take(&p, sizeof(*eth));
    struct ipv6hdr *ip = take(&p, sizeof(*ip));
    struct routing *routing = take(&p, sizeof(*routing));
    if (!eth || !ip || !routing || eth->h_proto != bpf_htons(ETH_P_IPV6))
        return XDP_PASS;
    if (ip->nexthdr != IPPROTO_ROUTING || routing->type != 4 || !routing->left)
        return XDP_PASS;
    if (ip->hop_limit < 2 || routing->left > 4 || routing->last > 4)
        return XDP_DROP;
    __u32 at = routing->left - 1;
    struct segment *segment = take(&p, sizeof(*segment));
    for (int i = 0; i < 4 && segment; i++) {
        if (i == at) {
            routing->left = at;
            ip->hop_limit--;
            __builtin_memcpy(&ip->daddr, segment, sizeof(*segment));
            return XDP_TX;
        }
        segment = take(&p, sizeof(*segment));
    }
    return XDP_DROP;
}
