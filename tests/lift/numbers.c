// SPDX-License-Identifier: Apache-2.0 OR MIT
// Iterators over numbers: with known ends, an end of the packet, nothing to go through, and left
// early.
#include <linux/bpf.h>

#include <bpf/bpf_helpers.h>

/* Linux 6.4; a flavour, in case the header has it. */
struct bpf_iter_num___own {
    __u64 opaque;
} __attribute__((aligned(8)));

extern int bpf_iter_num_new(struct bpf_iter_num___own *it, int start, int end) __ksym;
extern int *bpf_iter_num_next(struct bpf_iter_num___own *it) __ksym;
extern void bpf_iter_num_destroy(struct bpf_iter_num___own *it) __ksym;

struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(max_entries, 8);
    __type(key, __u32);
    __type(value, __u64);
} found SEC(".maps");

static void note(__u32 at, __u64 value)
{
    __u64 *slot = bpf_map_lookup_elem(&found, &at);
    if (slot)
        *slot = *slot * 31 + value;
}

SEC("xdp") int numbers(struct xdp_md *ctx)
{
    __u8 *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
    struct bpf_iter_num___own it;
    int *number;
    __u64 sum = 0;
    if (data + 40 > end)
        return XDP_DROP;
    bpf_iter_num_new(&it, 2, 10);
    while ((number = bpf_iter_num_next(&it)))
        sum += *number * data[14];
    bpf_iter_num_destroy(&it);
    note(0, sum);
    /* As many as the packet says, from a number below zero on. */
    sum = bpf_iter_num_new(&it, -3, data[15] % 16);
    while ((number = bpf_iter_num_next(&it))) {
        __u8 *byte = data + (*number & 63);
        if (*number < 0)
            sum++;
        else if (byte + 1 <= end)
            sum = sum * 3 + *byte;
        if (sum % 64 == 13)
            break;
    }
    bpf_iter_num_destroy(&it);
    note(1, sum);
    /* So many places to leave that they do not nest. */
    sum = 0;
    bpf_iter_num_new(&it, 0, 300);
    while ((number = bpf_iter_num_next(&it))) {
        __u8 *byte = data + (*number & 511);
        if (byte + 1 > end)
            break;
        sum += *byte;
    }
    bpf_iter_num_destroy(&it);
    note(4, sum);
    note(2, bpf_iter_num_new(&it, 5, data[16] % 8));
    note(3, bpf_iter_num_next(&it) ? 1 : 2);
    bpf_iter_num_destroy(&it);
    return XDP_PASS;
}

char _license[] SEC("license") = "GPL";
