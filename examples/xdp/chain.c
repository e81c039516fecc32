/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * chain: a parser, a policy and a forwarder behind one another by tail calls.
 */
#include "xdp.h"

struct meta {
    __u32 protocol, offset;
};

struct {
    __uint(type, BPF_MAP_TYPE_PROG_ARRAY);
    __uint(max_entries, 4);
    __type(key, __u32);
    __type(value, __u32);
} steps SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_HASH);
    __uint(max_entries, 64);
    __type(key, __u32);
    __type(value, __u32);
} allowed SEC(".maps");

INLINE struct meta *meta_of(struct xdp_md *ctx)
{
    struct meta *meta = (void *)(long)ctx->data_meta;
    return (void *)(meta + 1) > (void *)(long)ctx->data ? 0 : meta;
}

SEC("xdp/parse") int parse(struct xdp_md *ctx)
{
    if (bpf_xdp_adjust_meta(ctx, -(int)sizeof(struct meta)))
        return XDP_ABORTED;
    struct meta *meta = meta_of(ctx);
    struct packet p = packet_of(ctx);
    struct ethhdr *eth = take(&p, sizeof(*eth));
    struct iphdr *ip = take(&p, sizeof(*ip));
    if (!meta || !eth || !ip || eth->h_proto != bpf_htons(ETH_P_IP))
        return XDP_PASS;
    meta->protocol = ip->protocol;
    meta->offset = sizeof(*eth) + ip->ihl * 4;
    bpf_tail_call(ctx, &steps, 1);
    return XDP_DROP;
}

SEC("xdp/policy") int policy(struct xdp_md *ctx)
{
    struct meta *meta = meta_of(ctx);
    if (!meta)
        return XDP_ABORTED;
    __u32 protocol = meta->protocol, *packets = bpf_map_lookup_elem(&allowed, &protocol);
    if (!packets && protocol != IPPROTO_UDP)
        return XDP_DROP;
    if (packets)
        *packets += meta->offset;
    bpf_tail_call(ctx, &steps, 2);
    return XDP_PASS;
}

SEC("xdp/forward") int forward(struct xdp_md *ctx)
{
    struct packet p = packet_of(ctx);
    struct ethhdr *eth = take(&p, sizeof(*eth));
    if (!eth)
        return XDP_ABORTED;
    eth->h_source[0] |= 2;
    return XDP_TX;
}
