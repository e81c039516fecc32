// SPDX-License-Identifier: Apache-2.0 OR MIT
// Queues and stacks: full, empty, and with the oldest element given up.
#include <linux/bpf.h>

#include <bpf/bpf_helpers.h>

struct seen {
    __u32 length;
    __u8 first, last;
};

struct {
    __uint(type, BPF_MAP_TYPE_QUEUE);
    __uint(max_entries, 5);
    __type(value, struct seen);
} queue SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_STACK);
    __uint(max_entries, 3);
    __type(value, __u64);
} stack SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(max_entries, 16);
    __type(key, __u32);
    __type(value, __u64);
} found SEC(".maps");

static void note(__u32 at, __u64 value)
{
    __u64 *slot = bpf_map_lookup_elem(&found, &at);
    if (slot)
        *slot = *slot * 31 + value;
}

SEC("xdp") int rings(struct xdp_md *ctx)
{
    void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
    __u8 *byte = data;
    if (data + 14 > end)
        return XDP_ABORTED;
    struct seen seen = {.length = end - data, .first = byte[5], .last = byte[11]};
    __u64 number = byte[13] * 256 + byte[12];
    __u32 what = (__u32)(end - data) % 7;
    if (what < 3) {
        note(0, bpf_map_push_elem(&queue, &seen, what == 1 ? BPF_EXIST : BPF_ANY));
        note(1, bpf_map_push_elem(&stack, &number, what == 2 ? BPF_EXIST : BPF_ANY));
    } else if (what < 5) {
        note(2, bpf_map_pop_elem(&queue, &seen));
        note(3, bpf_map_pop_elem(&stack, &number));
    } else {
        note(4, bpf_map_peek_elem(&queue, &seen));
        note(5, bpf_map_peek_elem(&stack, &number));
    }
    note(6, seen.length);
    note(7, seen.first * 256 + seen.last);
    note(8, number);
    return number & 1 ? XDP_TX : XDP_PASS;
}

char _license[] SEC("license") = "GPL";
