// SPDX-License-Identifier: Apache-2.0 OR MIT
// Takes off as many bytes in front as the packet says.
#include <linux/bpf.h>

#include <bpf/bpf_helpers.h>

SEC("xdp") int behead(struct xdp_md *ctx)
{
    __u8 *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
    if (data + 54 > end)
        return XDP_DROP;
    int by = 4 + (data[14] & 15) * 4 + (data[11] & 3);
    __u8 kind = data[12];
    if (bpf_xdp_adjust_head(ctx, by))
        return XDP_ABORTED;
    data = (void *)(long)ctx->data;
    end = (void *)(long)ctx->data_end;
    if (data + 16 > end)
        return XDP_TX;
    data[0] = kind;
    data[15] ^= by;
    if (data[1] == 1)
        bpf_xdp_adjust_tail(ctx, -2);
    return bpf_xdp_adjust_head(ctx, 6) ? XDP_PASS : XDP_TX;
}

// Takes off headers whose length the packet says, then makes room: what was there last is seen
// again, also where nobody writes.
SEC("xdp/again") int again(struct xdp_md *ctx)
{
    __u8 *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
    if (data + 54 > end)
        return XDP_DROP;
    int by = 14 + (data[14] & 15) * 4 + (data[11] & 3);
    if (bpf_xdp_adjust_head(ctx, by))
        return XDP_ABORTED;
    if (bpf_xdp_adjust_head(ctx, -40))
        return XDP_PASS;
    data = (void *)(long)ctx->data;
    end = (void *)(long)ctx->data_end;
    if (data + 40 > end)
        return XDP_DROP;
    data[3] = data[7] + data[18];
    data[19] ^= data[25];
    return XDP_TX;
}

// The same behind bytes that were taken off before: what is seen again then is not known.
SEC("xdp/twice") int twice(struct xdp_md *ctx)
{
    __u8 *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
    if (data + 54 > end)
        return XDP_DROP;
    int by = 14 + (data[14] & 15) * 4;
    if (bpf_xdp_adjust_head(ctx, 6) || bpf_xdp_adjust_head(ctx, by))
        return XDP_ABORTED;
    return bpf_xdp_adjust_head(ctx, -40) ? XDP_PASS : XDP_TX;
}

char _license[] SEC("license") = "GPL";
