// SPDX-License-Identifier: Apache-2.0 OR MIT
// Counts packets and bytes by IP protocol and packets by source; sends UDP back.
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

struct stat {
    __u64 packets, bytes;
};

struct {
    __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
    __type(key, __u32);
    __type(value, struct stat);
    __uint(max_entries, 256);
} stats SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_HASH);
    __type(key, __u32);
    __type(value, __u64);
    __uint(max_entries, 1024);
} seen SEC(".maps");

SEC("xdp") int counters(struct xdp_md *ctx)
{
    void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
    struct ethhdr *eth = data;
    if ((void *)(eth + 1) > end)
        return XDP_ABORTED;
    if (eth->h_proto != bpf_htons(ETH_P_IP))
        return XDP_PASS;
    struct iphdr *ip = (void *)(eth + 1);
    if ((void *)(ip + 1) > end)
        return XDP_DROP;
    __u32 protocol = ip->protocol, source = ip->saddr;
    struct stat *stat = bpf_map_lookup_elem(&stats, &protocol);
    if (stat) {
        stat->packets++;
        stat->bytes += end - data;
    }
    __u64 one = 1, *count = bpf_map_lookup_elem(&seen, &source);
    if (count)
        __sync_fetch_and_add(count, 1);
    else
        bpf_map_update_elem(&seen, &source, &one, BPF_ANY);
    if (protocol != IPPROTO_UDP)
        return XDP_PASS;
    unsigned char address[ETH_ALEN];
    __builtin_memcpy(address, eth->h_dest, ETH_ALEN);
    __builtin_memcpy(eth->h_dest, eth->h_source, ETH_ALEN);
    __builtin_memcpy(eth->h_source, address, ETH_ALEN);
    return XDP_TX;
}
