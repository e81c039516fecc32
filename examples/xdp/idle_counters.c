/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * idle_counters: counts by protocol, and forgets all counts when a packet with a mark comes.
 */
#include "xdp.h"

TABLE(counters, __u64, 8);

static long forget(void *map, const __u32 *key, __u64 *value, void *sum)
{
    *(__u64 *)sum += *value;
    *value = 0;
    return 0;
}

SEC("xdp") int idle_counters(struct xdp_md *ctx)
{
    struct packet p = packet_of(ctx);
    struct ethhdr *eth = take(&p, sizeof(*eth));
    struct iphdr *ip = take(&p, sizeof(*ip));
    if (!eth || !ip || eth->h_proto != bpf_htons(ETH_P_IP))
        return XDP_PASS;
    if (ip->tos & 1) {
        __u64 sum = 0;
        bpf_for_each_map_elem(&counters, forget, &sum, 0);
        ip->id = sum;
        return XDP_TX;
    }
    __u32 slot = ip->protocol & 7;
    __u64 *count = bpf_map_lookup_elem(&counters, &slot);
    if (count)
        *count += 1;
    return XDP_PASS;
}
