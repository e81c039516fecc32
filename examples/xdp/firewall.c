/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * firewall: drops packets that match a rule of a table; counts hits.
 */
#include "xdp.h"

struct flow {
    __u32 source, target;
    __u16 from, to;
    __u8 protocol, unused[3];
};

struct {
    __uint(type, BPF_MAP_TYPE_HASH);
    __uint(max_entries, 1024);
    __type(key, struct flow);
    __type(value, __u64);
} rules SEC(".maps");

SEC("xdp") int firewall(struct xdp_md *ctx)
{
    struct packet p = packet_of(ctx);
    struct ethhdr *eth = take(&p, sizeof(*eth));
    if (!eth)
        return XDP_DROP;
    if (eth->h_proto != bpf_htons(ETH_P_IP))
        return XDP_PASS;
    struct iphdr *ip = take(&p, sizeof(*ip));
    if (!ip || ip->ihl != 5)
        return XDP_DROP;
    struct flow flow = {.source = ip->saddr, .target = ip->daddr, .protocol = ip->protocol};
    if (ip->protocol == IPPROTO_TCP || ip->protocol == IPPROTO_UDP) {
        struct udphdr *ports = take(&p, sizeof(*ports));
        if (!ports)
            return XDP_DROP;
        flow.from = ports->source;
        flow.to = ports->dest;
    }
    __u64 *hits = bpf_map_lookup_elem(&rules, &flow);
    if (!hits)
        return XDP_PASS;
    __sync_fetch_and_add(hits, 1);
    return XDP_DROP;
}
