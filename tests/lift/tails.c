/* Packets that become longer and shorter at their end: by constants, by what the packet says, and
 * behind headers that were taken off or put in front. */
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(max_entries, 8);
    __type(key, __u32);
    __type(value, __u64);
} results SEC(".maps");

static __always_inline void note(__u32 at)
{
    __u64 *count = bpf_map_lookup_elem(&results, &at);
    if (count)
        *count += 1;
}

/* A trailer of 8 bytes, of which the last 4 stay zero. */
SEC("xdp/trailer")
int trailer(struct xdp_md *ctx)
{
    __u32 length = ctx->data_end - ctx->data;
    if (bpf_xdp_adjust_tail(ctx, 8)) {
        note(0);
        return XDP_DROP;
    }
    void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
    length &= 0x1ff;
    __u8 *at = data + length;
    if ((void *)(at + 4) > end)
        return XDP_PASS;
    at[0] = 0x7e;
    at[1] = length;
    at[2] = length >> 8;
    note(1);
    return XDP_TX;
}

/* By a signed number in the packet. */
SEC("xdp/either")
int either(struct xdp_md *ctx)
{
    void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
    if (data + 16 > end)
        return XDP_DROP;
    int by = *(signed char *)(data + 15);
    if (bpf_xdp_adjust_tail(ctx, by * 8)) {
        note(2);
        return XDP_PASS;
    }
    data = (void *)(long)ctx->data, end = (void *)(long)ctx->data_end;
    if (data + 60 > end)
        return XDP_TX;
    *(__u8 *)(data + 59) ^= 0x55;
    note(3);
    return XDP_TX;
}

/* Beyond what a frame may have, in front and behind. */
SEC("xdp/limits")
int limits(struct xdp_md *ctx)
{
    if (!bpf_xdp_adjust_tail(ctx, 3500))
        note(4);
    if (!bpf_xdp_adjust_tail(ctx, 4000))
        return XDP_ABORTED;
    if (bpf_xdp_adjust_head(ctx, 6))
        return XDP_DROP;
    if (bpf_xdp_adjust_tail(ctx, -20)) {
        note(5);
        return XDP_PASS;
    }
    if (bpf_xdp_adjust_tail(ctx, 40))
        return XDP_PASS;
    if (bpf_xdp_adjust_head(ctx, -14))
        return XDP_ABORTED;
    void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
    if (data + 14 > end)
        return XDP_ABORTED;
    __builtin_memset(data, 0x11, 14);
    if (bpf_xdp_adjust_tail(ctx, 2))
        note(6);
    return XDP_TX;
}

char _license[] SEC("license") = "GPL";
