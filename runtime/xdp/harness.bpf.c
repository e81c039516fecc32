/* SPDX-License-Identifier: 0BSD
 *
 * harness.bpf.c - small programs around the program under test: what a measurement subtracts, and
 * what the wire side of a test network does. Compiled when they are used.
 */
#include <linux/bpf.h>
#include <stdbool.h>
#include <bpf/bpf_helpers.h>

/* Largest frame that fits a page in native XDP. */
#define LARGEST_FRAME 4096

/* What a run costs without any program. */
SEC("xdp")
int nf_empty(struct xdp_md *ctx)
{
    (void)ctx;
    return XDP_DROP;
}

/* Frames to send, and the interfaces to send them by. */
struct frame_record {
    __u32 ifindex;
    __u32 length;
    __u8 bytes[LARGEST_FRAME];
};

struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(max_entries, 1);
    __type(key, __u32);
    __type(value, struct frame_record);
} nf_frames SEC(".maps");

const volatile __u32 nf_frame_count = 1;
__u32 nf_next;

/* Turns the frame it is given, which is as long as the longest, into the next of nf_frames and
 * sends it. */
SEC("xdp")
int nf_generate(struct xdp_md *ctx)
{
    __u32 at = nf_next;
    nf_next = at + 1 < nf_frame_count ? at + 1 : 0;
    struct frame_record *frame = bpf_map_lookup_elem(&nf_frames, &at);
    if (!frame)
        return XDP_ABORTED;
    __u64 length = frame->length;
    if (length > LARGEST_FRAME)
        length = 0;
    /* Without this, clang makes one comparison of both bounds, of which the verifier sees only the
     * upper one. */
    asm volatile("" : "+r"(length));
    if (length < 1 || bpf_xdp_adjust_tail(ctx, (int)length - (int)bpf_xdp_get_buff_len(ctx)) ||
        bpf_xdp_store_bytes(ctx, 0, frame->bytes, length))
        return XDP_ABORTED;
    return bpf_redirect(frame->ifindex, 0);
}

/* Programs that nf_again runs: the one under test, and nf_empty. */
struct {
    __uint(type, BPF_MAP_TYPE_PROG_ARRAY);
    __uint(max_entries, 2);
    __type(key, __u32);
    __type(value, __u32);
} nf_subjects SEC(".maps");

struct again_state {
    /* Which of them it runs, and the next of nf_frames. */
    __u32 subject;
    __u32 next;
    /* Where the frame was at first, the lower half of its address; set by the first run. */
    __u32 begin;
    __u32 begun;
};

struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(max_entries, 1);
    __type(key, __u32);
    __type(value, struct again_state);
} nf_again_state SEC(".maps");

/* Undoes what the run before did to the frame, makes it the next of nf_frames and runs a program on
 * it. */
SEC("xdp")
int nf_again(struct xdp_md *ctx)
{
    __u32 zero = 0;
    struct again_state *state = bpf_map_lookup_elem(&nf_again_state, &zero);
    if (!state)
        return XDP_ABORTED;
    __u32 at = state->next;
    state->next = at + 1 < nf_frame_count ? at + 1 : 0;
    struct frame_record *frame = bpf_map_lookup_elem(&nf_frames, &at);
    if (!frame)
        return XDP_ABORTED;
    __u32 data = ctx->data;
    /* The verifier then takes it for a number and no longer for a pointer. */
    asm volatile("%0 += 0" : "+r"(data));
    if (!state->begun) {
        state->begin = data;
        state->begun = 1;
    }
    __u64 length = frame->length;
    if (length > LARGEST_FRAME)
        length = 0;
    asm volatile("" : "+r"(length)); /* as above */
    if (ctx->data_meta < ctx->data && bpf_xdp_adjust_meta(ctx, ctx->data - ctx->data_meta))
        return XDP_ABORTED;
    if (data != state->begin && bpf_xdp_adjust_head(ctx, (int)(state->begin - data)))
        return XDP_ABORTED;
    int more = (int)length - (int)bpf_xdp_get_buff_len(ctx);
    if (more && bpf_xdp_adjust_tail(ctx, more))
        return XDP_ABORTED;
    if (length < 1 || bpf_xdp_store_bytes(ctx, 0, frame->bytes, length))
        return XDP_ABORTED;
    bpf_tail_call(ctx, &nf_subjects, state->subject);
    return XDP_ABORTED;
}

struct {
    __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
    __uint(max_entries, 1);
    __type(key, __u32);
    __type(value, __u64);
} nf_received SEC(".maps");

/* Counts frames and ends them: the receiver of a rate measurement. */
SEC("xdp")
int nf_count(struct xdp_md *ctx)
{
    (void)ctx;
    __u32 zero = 0;
    __u64 *received = bpf_map_lookup_elem(&nf_received, &zero);
    if (received)
        *received += 1;
    return XDP_DROP;
}

/* Frames that arrive at the wire side of any port, in order of arrival. */
struct {
    __uint(type, BPF_MAP_TYPE_RINGBUF);
    __uint(max_entries, 1 << 25);
} nf_wire SEC(".maps");

/* What a recorded run of several stages puts into the metadata of a frame that leaves. */
struct trip {
    __u32 number;
    __u32 route;
};

struct arrived_record {
    __u32 ifindex;
    __u32 length;
    struct trip trip;
    __u8 bytes[LARGEST_FRAME];
};

struct {
    __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
    __uint(max_entries, 1);
    __type(key, __u32);
    __type(value, struct arrived_record);
} nf_arrived SEC(".maps");

/* Frames that were lost because the ring was full or the frame too long. */
__u64 nf_wire_lost;

SEC("xdp")
int nf_collect(struct xdp_md *ctx)
{
    __u32 zero = 0;
    __u64 length = bpf_xdp_get_buff_len(ctx);
    struct arrived_record *record = bpf_map_lookup_elem(&nf_arrived, &zero);
    if (!record)
        return XDP_ABORTED;
    struct trip *trip = (struct trip *)(long)ctx->data_meta;
    record->trip = (struct trip){~0u, ~0u};
    if ((void *)(trip + 1) <= (void *)(long)ctx->data)
        record->trip = *trip;
    record->ifindex = ctx->ingress_ifindex;
    record->length = length;
    if (length > LARGEST_FRAME)
        length = 0;
    asm volatile("" : "+r"(length)); /* as above */
    if (length < 1 || bpf_xdp_load_bytes(ctx, 0, record->bytes, length) ||
        bpf_ringbuf_output(&nf_wire, record, sizeof(*record) - LARGEST_FRAME + length, 0))
        __sync_fetch_and_add(&nf_wire_lost, 1);
    return XDP_DROP;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
