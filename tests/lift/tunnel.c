// SPDX-License-Identifier: Apache-2.0 OR MIT
// Two programs: one puts IPv4 packets into IPv4, the other takes them out.
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

static __always_inline struct iphdr *ipv4(struct xdp_md *ctx)
{
    void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
    struct ethhdr *eth = data;
    struct iphdr *ip = (void *)(eth + 1);
    if ((void *)(ip + 1) > end || eth->h_proto != bpf_htons(ETH_P_IP))
        return 0;
    return ip;
}

SEC("xdp/in") int encapsulate(struct xdp_md *ctx)
{
    struct iphdr *inner = ipv4(ctx);
    if (!inner)
        return XDP_PASS;
    __u16 length = bpf_ntohs(inner->tot_len) + sizeof(*inner);
    struct ethhdr eth = *(struct ethhdr *)(long)ctx->data;
    if (bpf_xdp_adjust_head(ctx, -(int)sizeof(*inner)))
        return XDP_DROP;
    void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
    struct iphdr *outer = data + sizeof(eth);
    if ((void *)(outer + 1) > end)
        return XDP_DROP;
    *(struct ethhdr *)data = eth;
    *outer = (struct iphdr){.version = 4, .ihl = 5, .ttl = 64, .protocol = IPPROTO_IPIP};
    outer->tot_len = bpf_htons(length);
    outer->saddr = bpf_htonl(0x0a000001);
    outer->daddr = bpf_htonl(0x0a000002);
    __u32 sum = 0;
    __u16 *words = (void *)outer;
    for (int i = 0; i < 10; i++)
        sum += words[i];
    sum = (sum & 0xffff) + (sum >> 16);
    outer->check = ~((sum & 0xffff) + (sum >> 16));
    return XDP_TX;
}

SEC("xdp/out") int decapsulate(struct xdp_md *ctx)
{
    struct iphdr *outer = ipv4(ctx);
    if (!outer || outer->protocol != IPPROTO_IPIP || outer->ihl != 5)
        return XDP_PASS;
    struct ethhdr eth = *(struct ethhdr *)(long)ctx->data;
    if (bpf_xdp_adjust_head(ctx, sizeof(struct iphdr)))
        return XDP_DROP;
    void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
    if (data + sizeof(eth) > end)
        return XDP_DROP;
    *(struct ethhdr *)data = eth;
    return XDP_TX;
}
