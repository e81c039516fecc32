// SPDX-License-Identifier: Apache-2.0 OR MIT
// A random number decides about long packets, one time in eight; a counter for each second of time.
#include <linux/bpf.h>

#include <bpf/bpf_helpers.h>

struct {
    __uint(type, BPF_MAP_TYPE_HASH);
    __uint(max_entries, 1024);
    __type(key, __u64);
    __type(value, __u64);
} seconds SEC(".maps");

SEC("xdp") int chance(struct xdp_md *ctx)
{
    if (ctx->data_end - ctx->data < 64)
        return XDP_DROP;
    return bpf_get_prandom_u32() & 7 ? XDP_PASS : XDP_TX;
}

SEC("xdp") int rate(struct xdp_md *ctx)
{
    __u64 second = bpf_ktime_get_ns() / 1000000000, one = 1;
    __u64 *found = bpf_map_lookup_elem(&seconds, &second);
    if (found)
        *found += 1;
    else
        bpf_map_update_elem(&seconds, &second, &one, BPF_ANY);
    return XDP_PASS;
}

char _license[] SEC("license") = "GPL";
