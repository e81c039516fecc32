// SPDX-License-Identifier: Apache-2.0 OR MIT
// A tail call in a function: what it leads to returns to the function's caller.
#include <linux/bpf.h>

#include <bpf/bpf_helpers.h>

int last(struct xdp_md *ctx);

struct {
    __uint(type, BPF_MAP_TYPE_PROG_ARRAY);
    __uint(max_entries, 2);
    __type(key, __u32);
    __array(values, int(void *));
} jumps SEC(".maps") = {.values = {[1] = (void *)&last}};

SEC("xdp") int last(struct xdp_md *ctx)
{
    __u32 length = ctx->data_end - ctx->data;
    return length & 1 ? XDP_DROP : XDP_TX;
}

static __noinline int jump(struct xdp_md *ctx)
{
    bpf_tail_call(ctx, &jumps, 1);
    return XDP_ABORTED;
}

static __noinline int stay(struct xdp_md *ctx)
{
    bpf_tail_call(ctx, &jumps, 0);
    return XDP_PASS;
}

SEC("xdp") int within(struct xdp_md *ctx)
{
    void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
    int verdict;
    if (data + 14 > end)
        return XDP_ABORTED;
    if (((__u8 *)data)[13])
        return stay(ctx);
    /* What came back decides here. */
    verdict = jump(ctx);
    return verdict == XDP_TX ? XDP_DROP : verdict == XDP_DROP ? XDP_TX : XDP_ABORTED;
}

char _license[] SEC("license") = "GPL";
