// SPDX-License-Identifier: Apache-2.0 OR MIT
// Flows in LRU maps of few entries, which give up some of them.
#include <linux/bpf.h>

#include <bpf/bpf_helpers.h>

struct flow {
    __u32 first;
    __u32 second;
    __u16 third;
    __u16 length;
};

struct seen {
    __u64 packets;
    __u64 bytes;
};

struct {
    __uint(type, BPF_MAP_TYPE_LRU_PERCPU_HASH);
    __type(key, struct flow);
    __type(value, struct seen);
} flows SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_LRU_HASH);
    __type(key, __u32);
    __type(value, __u64);
    __uint(max_entries, 12);
    // As another loader than libbpf has it.
    __uint(pinning, 100);
} lengths SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __type(key, __u32);
    __type(value, __u64);
    __uint(max_entries, 2);
} counted SEC(".maps");

SEC("xdp")
int evicts(struct xdp_md *ctx)
{
    void *end = (void *)(long)ctx->data_end;
    __u8 *at = (void *)(long)ctx->data;
    if ((void *)(at + 40) > end)
        return XDP_DROP;
    struct flow flow = {.length = end - (void *)at};
    __builtin_memcpy(&flow, at + 28, 10);
    struct seen *seen = bpf_map_lookup_elem(&flows, &flow);
    __u32 length = flow.length;
    if (seen) {
        seen->packets++;
        seen->bytes += length;
    } else {
        struct seen first = {.packets = 1, .bytes = length};
        bpf_map_update_elem(&flows, &flow, &first, BPF_ANY);
    }
    __u32 index = seen != 0;
    __u64 *count = bpf_map_lookup_elem(&counted, &index);
    if (count)
        *count += 1;
    __u64 *often = bpf_map_lookup_elem(&lengths, &length);
    if (!often) {
        __u64 one = 1;
        bpf_map_update_elem(&lengths, &length, &one, BPF_ANY);
        return XDP_PASS;
    }
    *often += 1;
    return *often & 1 ? XDP_TX : XDP_PASS;
}

char _license[] SEC("license") = "GPL";
