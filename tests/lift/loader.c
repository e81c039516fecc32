/* What only a loader or the kernel fills, metadata, samples of packets, and a choice of members. */
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <bpf/bpf_helpers.h>

struct inner {
    __uint(type, BPF_MAP_TYPE_HASH);
    __uint(max_entries, 4);
    __type(key, __u32);
    __type(value, __u32);
};

struct {
    __uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
    __uint(max_entries, 2);
    __type(key, __u32);
    __array(values, struct inner);
} per_cpu SEC(".maps");

struct counters {
    __u64 packets;
    __u64 small;
    __u64 large;
};

struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(max_entries, 1);
    __type(key, __u32);
    __type(value, struct counters);
} seen SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_PERF_EVENT_ARRAY);
    __uint(key_size, 4);
    __uint(value_size, 4);
} samples SEC(".maps");

SEC("xdp/metadata")
int metadata(struct xdp_md *ctx)
{
    if (bpf_xdp_adjust_meta(ctx, -8))
        return XDP_ABORTED;
    if (bpf_xdp_adjust_meta(ctx, 2) == 0)
        return XDP_ABORTED;
    void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
    __u32 *mark = (void *)(long)ctx->data_meta;
    struct ethhdr *eth = data;
    if ((void *)(mark + 2) > data || (void *)(eth + 1) > end)
        return XDP_DROP;
    mark[0] = eth->h_proto;
    mark[1] = 7;
    if (bpf_xdp_adjust_head(ctx, -4))
        return XDP_ABORTED;
    data = (void *)(long)ctx->data, end = (void *)(long)ctx->data_end;
    mark = (void *)(long)ctx->data_meta;
    if ((void *)(mark + 2) > data || data + 18 > end)
        return XDP_DROP;
    *(__u16 *)data = mark[0];
    *(__u16 *)(data + 2) = mark[1];
    return XDP_TX;
}

SEC("xdp/members")
int members(struct xdp_md *ctx)
{
    void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
    __u32 key = 0;
    void *inner = bpf_map_lookup_elem(&per_cpu, &key);
    if (inner && bpf_map_lookup_elem(inner, &key))
        return XDP_DROP;
    struct counters *counters = bpf_map_lookup_elem(&seen, &key);
    if (!counters)
        return XDP_DROP;
    __u64 *one = data + 128 > end ? &counters->small : &counters->large;
    asm volatile("" : "+r"(one));
    *one += 1;
    counters->packets += *one;
    return XDP_PASS;
}

SEC("xdp/sample")
int sample(struct xdp_md *ctx)
{
    struct {
        __u16 cookie;
        __u16 length;
    } head = {0xbeef, ctx->data_end - ctx->data};
    __u64 flags = BPF_F_CURRENT_CPU | (__u64)head.length << 32;
    bpf_perf_event_output(ctx, &samples, flags, &head, sizeof(head));
    return XDP_PASS;
}

SEC("xdp/cpumap")
int alone(struct xdp_md *ctx) { return XDP_PASS; }

char _license[] SEC("license") = "GPL";
