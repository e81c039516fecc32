// SPDX-License-Identifier: Apache-2.0 OR MIT
// Maps as objects had them before BTF, which libbpf no longer takes by itself, and a function.
#include <linux/bpf.h>

#include <bpf/bpf_helpers.h>

struct map_definition {
    unsigned int type, key_size, value_size, max_entries, map_flags;
};

struct map_definition SEC("maps") sizes = {
    .type = BPF_MAP_TYPE_HASH,
    .key_size = sizeof(__u32),
    .value_size = sizeof(__u64),
    .max_entries = 64,
    .map_flags = BPF_F_NO_PREALLOC,
};

struct map_definition SEC("maps") total = {
    .type = BPF_MAP_TYPE_ARRAY,
    .key_size = sizeof(__u32),
    .value_size = sizeof(__u32),
    .max_entries = 2,
};

// Behind a call, in section `.text`.
static __attribute__((noinline)) int third(__u32 count) { return count % 3 ? XDP_PASS : XDP_TX; }

SEC("xdp") int older(struct xdp_md *ctx)
{
    __u32 size = ctx->data_end - ctx->data, odd = size & 1, *count;
    __u64 one = 1, *seen = bpf_map_lookup_elem(&sizes, &size);
    if (seen)
        *seen += one;
    else if (bpf_map_update_elem(&sizes, &size, &one, BPF_ANY))
        return XDP_ABORTED;
    count = bpf_map_lookup_elem(&total, &odd);
    if (!count)
        return XDP_DROP;
    *count += 1;
    return third(*count);
}

char _license[] SEC("license") = "GPL";
