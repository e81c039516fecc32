/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * replay.bpf.c - runs another program on the packets of a capture, one after the other, over and
 * over.
 */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

#define LARGEST_FRAME 4096

struct frame {
    __u32 length;
    __u8 bytes[LARGEST_FRAME];
};

struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(max_entries, 1);
    __type(key, __u32);
    __type(value, struct frame);
} frames SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_PROG_ARRAY);
    __uint(max_entries, 1);
    __type(key, __u32);
    __type(value, __u32);
} measured SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(max_entries, 1);
    __type(key, __u32);
    __type(value, __u32[2]);
} position SEC(".maps");

/* Where frames start: first as the last program left it, then as the first one of this run found
 * it. */
struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(max_entries, 1);
    __type(key, __u32);
    __type(value, __u64[2]);
} starts SEC(".maps");

/* Bytes from the frame's start to where the run's first frame started. The verifier lets no
 * arithmetic see a packet's address, but a map may hold it. */
static __always_inline int moved(struct xdp_md *ctx)
{
    __u32 zero = 0;
    volatile __u64 *start = bpf_map_lookup_elem(&starts, &zero);
    if (!start)
        return 0;
    start[0] = (__u64)(long)ctx->data;
    if (start[1] == 0)
        start[1] = start[0];
    return (int)(start[1] - start[0]);
}

/* Turns the frame it is given into the next of the capture and hands it on. */
SEC("xdp")
int replay(struct xdp_md *ctx)
{
    __u32 zero = 0;
    __u32 *next = bpf_map_lookup_elem(&position, &zero);
    if (!next)
        return XDP_ABORTED;
    __u32 at = next[0];
    next[0] = at + 1 < next[1] ? at + 1 : 0;
    struct frame *frame = bpf_map_lookup_elem(&frames, &at);
    if (!frame)
        return XDP_ABORTED;
    __u64 length = frame->length;
    if (length > LARGEST_FRAME)
        length = 0;
    /* Without this, clang makes one comparison of both bounds, of which the verifier sees only the
     * upper one. */
    asm volatile("" : "+r"(length));
    int shift = moved(ctx);
    if (length < 1 ||
        bpf_xdp_adjust_tail(ctx, (int)length + shift - (int)bpf_xdp_get_buff_len(ctx)) ||
        bpf_xdp_adjust_head(ctx, shift) || bpf_xdp_store_bytes(ctx, 0, frame->bytes, length))
        return XDP_ABORTED;
    bpf_tail_call(ctx, &measured, 0);
    return XDP_ABORTED;
}

SEC("xdp")
int empty(struct xdp_md *ctx)
{
    (void)ctx;
    return XDP_DROP;
}

char LICENSE[] SEC("license") = "Dual MIT/GPL";
