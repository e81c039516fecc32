// SPDX-License-Identifier: Apache-2.0 OR MIT
// Tail calls whose programs the object itself names: in the way of libbpf, and by tags.
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <bpf/bpf_helpers.h>

#define TAIL(map, slot) __attribute__((btf_decl_tag("tail:" #map "/" #slot)))

struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __type(key, __u32);
    __type(value, __u64);
    __uint(max_entries, 4);
} seen SEC(".maps");

int tagged(struct xdp_md *ctx);
int named(struct xdp_md *ctx);

struct {
    __uint(type, BPF_MAP_TYPE_PROG_ARRAY);
    __uint(key_size, 4);
    __uint(max_entries, 4);
    __array(values, int(void *));
} by_values SEC(".maps") = {
    .values = {[2] = (void *)&named},
};

struct {
    __uint(type, BPF_MAP_TYPE_PROG_ARRAY);
    __uint(key_size, 4);
    __uint(value_size, 4);
    __uint(max_entries, 4);
} by_tags SEC(".maps");

static __always_inline void count(__u32 at)
{
    __u64 *value = bpf_map_lookup_elem(&seen, &at);
    if (value)
        *value += 1;
}

SEC("xdp") int first(struct xdp_md *ctx)
{
    struct ethhdr *eth = (void *)(long)ctx->data;
    if ((void *)(eth + 1) > (void *)(long)ctx->data_end)
        return XDP_DROP;
    count(0);
    if (eth->h_proto == 8)
        bpf_tail_call(ctx, &by_values, 2);
    bpf_tail_call(ctx, &by_values, 1);
    bpf_tail_call(ctx, &by_tags, 3);
    return XDP_ABORTED;
}

SEC("xdp") int named(struct xdp_md *ctx)
{
    count(1);
    return XDP_PASS;
}

TAIL(by_tags, 3) SEC("xdp") int tagged(struct xdp_md *ctx)
{
    count(2);
    return XDP_TX;
}

char _license[] SEC("license") = "GPL";
