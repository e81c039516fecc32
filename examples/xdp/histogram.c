/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * histogram: lengths of packets by powers of two, for each CPU.
 */
#include "xdp.h"

struct {
    __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
    __uint(max_entries, 16);
    __type(key, __u32);
    __type(value, __u64);
} lengths SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_PERCPU_HASH);
    __uint(max_entries, 64);
    __type(key, __u16);
    __type(value, __u32);
} largest SEC(".maps");

SEC("xdp") int histogram(struct xdp_md *ctx)
{
    struct packet p = packet_of(ctx);
    struct ethhdr *eth = take(&p, sizeof(*eth));
    if (!eth)
        return XDP_DROP;
    __u32 length = ctx->data_end - ctx->data, class = 0;
    while (class < 15 && length >> (class + 1))
        class ++;
    __u64 *count = bpf_map_lookup_elem(&lengths, &class);
    if (count)
        *count += 1;
    __u16 protocol = eth->h_proto;
    __u32 *most = bpf_map_lookup_elem(&largest, &protocol);
    if (!most)
        bpf_map_update_elem(&largest, &protocol, &length, BPF_NOEXIST);
    else if (length > *most)
        *most = length;
    return XDP_PASS;
}
