/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * dns_filter: drops queries (RFC 1035) for names whose hash is in a list.
 */
#include "xdp.h"

struct {
    __uint(type, BPF_MAP_TYPE_HASH);
    __uint(max_entries, 1024);
    __type(key, __u32);
    __type(value, __u32);
} blocked SEC(".maps");

#define LONGEST 32

SEC("xdp") int dns_filter(struct xdp_md *ctx)
{
    struct packet p = packet_of(ctx);
    struct ethhdr *eth = take(&p, sizeof(*eth));
    struct iphdr *ip = take(&p, sizeof(*ip));
    struct udphdr *udp = take(&p, sizeof(*udp));
    if (!eth || !ip || !udp || eth->h_proto != bpf_htons(ETH_P_IP) || ip->ihl != 5)
        return XDP_PASS;
    __u8 *dns = take(&p, 12);
    if (!dns || ip->protocol != IPPROTO_UDP || udp->dest != bpf_htons(53) || dns[2] & 0x80)
        return XDP_PASS;
    __u32 hash = 5381;
    for (int i = 0; i < LONGEST; i++) {
        __u8 *byte = take(&p, 1);
        if (!byte)
            return XDP_DROP;
        if (!*byte)
            break;
        hash = hash * 33 + (*byte | 0x20);
    }
    __u32 *queries = bpf_map_lookup_elem(&blocked, &hash);
    if (!queries)
        return XDP_PASS;
    *queries += 1;
    return XDP_DROP;
}
