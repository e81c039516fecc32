// SPDX-License-Identifier: Apache-2.0 OR MIT
// Functions that are not inlined, a map value that may come from two lookups, checksums by the
// helper, packets cut short.
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

struct key {
    __u32 address;
    __u8 protocol;
    __u8 unused[3];
};

struct {
    __uint(type, BPF_MAP_TYPE_HASH);
    __type(key, struct key);
    __type(value, __u32[4]);
    __uint(max_entries, 512);
} exact SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __type(key, __u32);
    __type(value, __u32[4]);
    __uint(max_entries, 4);
} others SEC(".maps");

__u64 total;

static __noinline int folded(__u32 sum)
{
    sum = (sum & 0xffff) + (sum >> 16);
    return (sum & 0xffff) + (sum >> 16);
}

static __noinline int note(__u32 address, __u8 protocol, __u32 length)
{
    struct key key = {.address = address, .protocol = protocol};
    __u32 index = protocol & 3, *counts = bpf_map_lookup_elem(&exact, &key);
    if (!counts) {
        __u32 fresh[4] = {1, length, 0, 0};
        if (length > 200)
            bpf_map_update_elem(&exact, &key, fresh, BPF_NOEXIST);
        counts = bpf_map_lookup_elem(&others, &index);
        if (!counts)
            return 0;
    }
    counts[length & 3]++;
    return counts[0];
}

SEC("xdp") int calls(struct xdp_md *ctx)
{
    void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
    struct ethhdr *eth = data;
    struct iphdr *ip = (void *)(eth + 1);
    __sync_fetch_and_add(&total, 1);
    if ((void *)(ip + 1) > end || eth->h_proto != bpf_htons(ETH_P_IP))
        return XDP_PASS;
    int count = note(ip->saddr, ip->protocol, bpf_ntohs(ip->tot_len));
    if (count > 40)
        return XDP_DROP;
    __u32 old = ip->daddr, new = bpf_htonl(0x0a000100 | (count & 255));
    ip->daddr = new;
    __s64 sum = bpf_csum_diff(&old, sizeof(old), &new, sizeof(new), (__u16)~ip->check);
    ip->check = ~folded(sum);
    if (ip->protocol == IPPROTO_ICMP && bpf_xdp_adjust_tail(ctx, -8))
        return XDP_ABORTED;
    return XDP_TX;
}
