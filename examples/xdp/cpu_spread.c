/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * cpu_spread: spreads flows over CPUs by a hash of their addresses.
 */
#include "xdp.h"

struct {
    __uint(type, BPF_MAP_TYPE_CPUMAP);
    __uint(max_entries, 8);
    __type(key, __u32);
    __type(value, __u32);
} cpus SEC(".maps");

TABLE(spread, __u64, 8);

SEC("xdp") int cpu_spread(struct xdp_md *ctx)
{
    struct packet p = packet_of(ctx);
    struct ethhdr *eth = take(&p, sizeof(*eth));
    if (!eth)
        return XDP_DROP;
    __u32 hash = 0;
    if (eth->h_proto == bpf_htons(ETH_P_IP)) {
        struct iphdr *ip = take(&p, sizeof(*ip));
        if (!ip)
            return XDP_DROP;
        hash = mix(ip->saddr, ip->daddr);
    } else if (eth->h_proto == bpf_htons(ETH_P_IPV6)) {
        struct ipv6hdr *ip = take(&p, sizeof(*ip));
        if (!ip)
            return XDP_DROP;
#pragma clang loop unroll(full)
        for (int i = 0; i < 4; i++)
            hash = mix(hash ^ ip->saddr.in6_u.u6_addr32[i], ip->daddr.in6_u.u6_addr32[i]);
    }
    __u32 cpu = hash & 7;
    __u64 *count = bpf_map_lookup_elem(&spread, &cpu);
    if (count)
        *count += 1;
    return bpf_redirect_map(&cpus, cpu, XDP_PASS);
}
