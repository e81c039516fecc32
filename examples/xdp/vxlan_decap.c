/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * vxlan_decap: takes VXLAN off frames of networks that are known, and counts them.
 */
#include "xdp.h"

struct vxlan {
    __be32 flags, network;
};

struct {
    __uint(type, BPF_MAP_TYPE_HASH);
    __uint(max_entries, 256);
    __type(key, __u32);
    __type(value, __u64);
} networks SEC(".maps");

SEC("xdp") int vxlan_decap(struct xdp_md *ctx)
{
    struct packet p = packet_of(ctx);
    struct ethhdr *eth = take(&p, sizeof(*eth));
    struct iphdr *ip = take(&p, sizeof(*ip));
    if (!eth || !ip || eth->h_proto != bpf_htons(ETH_P_IP) || ip->protocol != IPPROTO_UDP)
        return XDP_PASS;
    struct udphdr *udp = take(&p, sizeof(*udp));
    struct vxlan *vxlan = take(&p, sizeof(*vxlan));
    if (!udp || !vxlan || ip->ihl != 5 || udp->dest != bpf_htons(4789))
        return XDP_PASS;
    __u32 network = bpf_ntohl(vxlan->network) >> 8;
    __u64 one = 1, *count = bpf_map_lookup_elem(&networks, &network);
    if (count)
        __sync_fetch_and_add(count, 1);
    else
        bpf_map_update_elem(&networks, &network, &one, BPF_NOEXIST);
    if (bpf_xdp_adjust_head(ctx, sizeof(*eth) + sizeof(*ip) + sizeof(*udp) + sizeof(*vxlan)))
        return XDP_DROP;
    return XDP_PASS;
}
