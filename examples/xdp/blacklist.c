/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * blacklist: drops sources under prefixes of a list, and counts by prefix.
 */
#include "xdp.h"

struct prefix {
    __u32 length;
    __u32 address;
};

struct {
    __uint(type, BPF_MAP_TYPE_LPM_TRIE);
    __uint(max_entries, 1024);
    __uint(map_flags, BPF_F_NO_PREALLOC);
    __type(key, struct prefix);
    __type(value, __u32);
} listed SEC(".maps");

TABLE(dropped, __u64, 256);

SEC("xdp") int blacklist(struct xdp_md *ctx)
{
    struct packet p = packet_of(ctx);
    struct ethhdr *eth = take(&p, sizeof(*eth));
    struct iphdr *ip = take(&p, sizeof(*ip));
    if (!eth || !ip || eth->h_proto != bpf_htons(ETH_P_IP))
        return XDP_PASS;
    struct prefix source = {.length = 32, .address = ip->saddr};
    __u32 *number = bpf_map_lookup_elem(&listed, &source);
    if (!number)
        return XDP_PASS;
    __u32 slot = *number & 255;
    __u64 *count = bpf_map_lookup_elem(&dropped, &slot);
    if (count)
        __sync_fetch_and_add(count, 1);
    return XDP_DROP;
}
