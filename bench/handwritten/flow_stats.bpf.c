/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * flow_stats by hand: a count-min sketch of packets per flow, and exact counts for flows it finds
 * heavy.
 */
#include "common.h"

#define ROWS 4
#define WIDTH 16384
#define HEAVY 64

struct flow {
    __be32 src;
    __be32 dst;
    __be16 sport;
    __be16 dport;
    __u8 protocol;
    __u8 pad[3];
};

struct heavy {
    __u32 packets;
    __u32 pad;
    __u64 bytes;
};

struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(max_entries, ROWS *WIDTH);
    __type(key, __u32);
    __type(value, __u32);
} sketch SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_HASH);
    __uint(max_entries, 4096);
    __type(key, struct flow);
    __type(value, struct heavy);
} heavy_hitters SEC(".maps");

COUNTERS(3, 2);

SEC("xdp")
int nf_net_recv(struct xdp_md *ctx)
{
    void *data = (void *)(long)ctx->data;
    void *end = (void *)(long)ctx->data_end;
    struct ethhdr *eth = data;
    struct iphdr *ip = (void *)(eth + 1);
    struct udphdr *l4 = (void *)(ip + 1);
    __u32 out = !in_port(ctx);

    if ((void *)(eth + 1) > end)
        return drop(0);
    if (eth->h_proto != bpf_htons(ETH_P_IP))
        return send(out);
    if ((void *)(ip + 1) > end)
        return drop(1);

    struct flow flow = {.src = ip->saddr, .dst = ip->daddr, .protocol = ip->protocol};
    /* Fragments count by address: only the first has ports. */
    if (!(ip->frag_off & bpf_htons(0x3fff)) && ip->ihl == 5 &&
        (ip->protocol == IPPROTO_TCP || ip->protocol == IPPROTO_UDP) &&
        (void *)(&l4->dest + 1) <= end) {
        flow.sport = l4->source;
        flow.dport = l4->dest;
    }

    __u32 estimate = ~0u;
#pragma unroll
    for (__u32 row = 0; row < ROWS; row++) {
        __u32 cell = row * WIDTH + hash(row, &flow, sizeof(flow)) % WIDTH;
        __u32 *count = bpf_map_lookup_elem(&sketch, &cell);
        if (!count)
            return XDP_ABORTED;
        __sync_fetch_and_add(count, 1);
        if (*count < estimate)
            estimate = *count;
    }
    if (estimate >= HEAVY) {
        __u64 bytes = bpf_ntohs(ip->tot_len);
        struct heavy *heavy = bpf_map_lookup_elem(&heavy_hitters, &flow);
        if (heavy) {
            __sync_fetch_and_add(&heavy->packets, 1);
            __sync_fetch_and_add(&heavy->bytes, bytes);
        } else {
            struct heavy first = {.packets = 1, .bytes = bytes};
            if (bpf_map_update_elem(&heavy_hitters, &flow, &first, BPF_NOEXIST))
                refused(1);
        }
    }
    return send(out);
}
