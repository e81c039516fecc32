/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * ipip_decap: takes the outer header of IPv4 in IPv4 off, if the packet is for this node.
 */
#include "xdp.h"

SEC("xdp") int ipip_decap(struct xdp_md *ctx)
{
    struct packet p = packet_of(ctx);
    struct ethhdr *eth = take(&p, sizeof(*eth));
    struct iphdr *outer = take(&p, sizeof(*outer));
    struct iphdr *inner = take(&p, sizeof(*inner));
    if (!eth || !outer || !inner || eth->h_proto != bpf_htons(ETH_P_IP))
        return XDP_PASS;
    if (outer->ihl != 5 || outer->protocol != IPPROTO_IPIP || inner->version != 4)
        return XDP_PASS;
    if (outer->ttl < 2)
        return XDP_DROP;
    struct ethhdr kept = *eth;
    if (bpf_xdp_adjust_head(ctx, sizeof(*outer)))
        return XDP_ABORTED;
    p = packet_of(ctx);
    eth = take(&p, sizeof(*eth));
    if (!eth)
        return XDP_ABORTED;
    *eth = kept;
    return XDP_PASS;
}
