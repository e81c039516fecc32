// SPDX-License-Identifier: Apache-2.0 OR MIT
// A tail call as iproute2's loader has it: the section of the program that is called says the
// map's number and the slot.
#include <linux/bpf.h>

#include <bpf/bpf_helpers.h>

struct map_definition {
    unsigned int type, key_size, value_size, max_entries, map_flags, id, pinning;
};

struct map_definition SEC("maps") jumps = {
    .type = BPF_MAP_TYPE_PROG_ARRAY,
    .key_size = sizeof(__u32),
    .value_size = sizeof(__u32),
    .max_entries = 4,
    .id = 7,
};

SEC("prog") int entry(struct xdp_md *ctx)
{
    if ((ctx->data_end - ctx->data) % 2)
        bpf_tail_call(ctx, &jumps, 2);
    bpf_tail_call(ctx, &jumps, 3);
    return XDP_DROP;
}

SEC("7/0x2") int odd(struct xdp_md *ctx) { return XDP_TX; }

SEC("7/3") int even(struct xdp_md *ctx) { return XDP_PASS; }

char _license[] SEC("license") = "GPL";
