/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * sampler: the headers of every eighth packet go to a process, through a ring buffer.
 */
#include "xdp.h"

struct sample {
    __u32 number, length;
    __u8 header[34];
};

struct {
    __uint(type, BPF_MAP_TYPE_RINGBUF);
    __uint(max_entries, 1 << 16);
} samples SEC(".maps");

static __u32 seen;

SEC("xdp") int sampler(struct xdp_md *ctx)
{
    struct packet p = packet_of(ctx);
    __u8 *header = take(&p, 34);
    __u32 number = seen++;
    if (!header || number & 7)
        return XDP_PASS;
    struct sample *sample = bpf_ringbuf_reserve(&samples, sizeof(*sample), 0);
    if (!sample)
        return XDP_PASS;
    sample->number = number;
    sample->length = ctx->data_end - ctx->data;
    __builtin_memcpy(sample->header, header, sizeof(sample->header));
    bpf_ringbuf_submit(sample, 0);
    return XDP_PASS;
}
