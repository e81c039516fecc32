/* SPDX-License-Identifier: 0BSD
 *
 * harness.bpf.c - small programs around the program under test: what a measurement subtracts, and what the wire side
 * of a test network does. Compiled when they are used.
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

/* Sends the frame on as the driver's generator mode wants it. */
SEC("xdp")
int nf_generate(struct xdp_md *ctx)
{
    (void)ctx;
    return XDP_TX;
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

struct frame_record {
    __u32 ifindex;
    __u32 length;
    __u8 bytes[LARGEST_FRAME];
};

struct {
    __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
    __uint(max_entries, 1);
    __type(key, __u32);
    __type(value, struct frame_record);
} nf_frame SEC(".maps");

/* Frames that were lost because the ring was full or the frame too long. */
__u64 nf_wire_lost;

SEC("xdp")
int nf_collect(struct xdp_md *ctx)
{
    __u32 zero = 0;
    __u64 length = bpf_xdp_get_buff_len(ctx);
    struct frame_record *record = bpf_map_lookup_elem(&nf_frame, &zero);
    if (!record)
        return XDP_ABORTED;
    record->ifindex = ctx->ingress_ifindex;
    record->length = length;
    if (length > LARGEST_FRAME)
        length = 0;
    /* Without this, clang makes one comparison of both bounds, of which the verifier sees only the upper one. */
    asm volatile("" : "+r"(length));
    if (length < 1 || bpf_xdp_load_bytes(ctx, 0, record->bytes, length) ||
        bpf_ringbuf_output(&nf_wire, record, 8 + length, 0))
        __sync_fetch_and_add(&nf_wire_lost, 1);
    return XDP_DROP;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
