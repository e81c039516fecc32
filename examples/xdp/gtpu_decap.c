/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * gtpu_decap: takes user data out of GTP-U (3GPP TS 29.281) for tunnels that are known.
 */
#include "xdp.h"

struct gtpu {
    __u8 flags, type;
    __be16 length;
    __be32 tunnel;
};

struct usage {
    __u64 packets, bytes;
};

struct {
    __uint(type, BPF_MAP_TYPE_HASH);
    __uint(max_entries, 1024);
    __type(key, __u32);
    __type(value, struct usage);
} tunnels SEC(".maps");

SEC("xdp") int gtpu_decap(struct xdp_md *ctx)
{
    struct packet p = packet_of(ctx);
    struct ethhdr *eth = take(&p, sizeof(*eth));
    struct iphdr *ip = take(&p, sizeof(*ip));
    struct udphdr *udp = take(&p, sizeof(*udp));
    struct gtpu *gtpu = take(&p, sizeof(*gtpu));
    if (!eth || !ip || !udp || !gtpu || eth->h_proto != bpf_htons(ETH_P_IP))
        return XDP_PASS;
    if (ip->ihl != 5 || ip->protocol != IPPROTO_UDP || udp->dest != bpf_htons(2152))
        return XDP_PASS;
    if (gtpu->flags >> 5 != 1 || gtpu->type != 255)
        return XDP_PASS;
    __u32 number = bpf_ntohl(gtpu->tunnel);
    struct usage *usage = bpf_map_lookup_elem(&tunnels, &number);
    if (!usage)
        return XDP_DROP;
    usage->packets++;
    usage->bytes += bpf_ntohs(gtpu->length);
    int more = gtpu->flags & 7 ? 4 : 0;
    struct ethhdr kept = *eth;
    if (bpf_xdp_adjust_head(ctx, sizeof(*ip) + sizeof(*udp) + sizeof(*gtpu) + more))
        return XDP_DROP;
    p = packet_of(ctx);
    eth = take(&p, sizeof(*eth));
    if (!eth)
        return XDP_ABORTED;
    *eth = kept;
    return XDP_PASS;
}
