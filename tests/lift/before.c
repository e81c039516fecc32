// SPDX-License-Identifier: Apache-2.0 OR MIT
/* Pointers from before the packet's ends moved, which the kernel still lets a program compare. */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

SEC("xdp/longer")
int longer(struct xdp_md *ctx)
{
    void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
    void *second = data + 14;
    if (second + 8 > end)
        return XDP_PASS;
    if (bpf_xdp_adjust_head(ctx, -20))
        return XDP_ABORTED;
    data = (void *)(long)ctx->data, end = (void *)(long)ctx->data_end;
    if (data + 28 > end)
        return XDP_ABORTED;
    __builtin_memset(data, 0x5a, 28);
    /* As far from the packet's new start as 34 bytes are, and 50 more. */
    if (second + 50 > end)
        return XDP_DROP;
    return second > data + 33 && second < data + 35 ? XDP_TX : XDP_ABORTED;
}

SEC("xdp/shorter")
int shorter(struct xdp_md *ctx)
{
    void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
    void *second = data + 18;
    if (second + 20 > end)
        return XDP_PASS;
    if (bpf_xdp_adjust_head(ctx, 4) || bpf_xdp_adjust_tail(ctx, -6))
        return XDP_ABORTED;
    end = (void *)(long)ctx->data_end;
    return second + 24 > end ? XDP_DROP : XDP_TX;
}

char _license[] SEC("license") = "GPL";
