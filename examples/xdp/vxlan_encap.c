/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * vxlan_encap: puts frames into VXLAN (RFC 7348) to the end point of their network, by VLAN.
 */
#include "xdp.h"

struct end {
    __u32 address, network;
    __u8 mac[6];
};

TABLE(ends, struct end, 64);

struct vxlan {
    __be32 flags, network;
};

struct outer {
    struct ethhdr eth;
    struct iphdr ip;
    struct udphdr udp;
    struct vxlan vxlan;
} __attribute__((packed));

SEC("xdp") int vxlan_encap(struct xdp_md *ctx)
{
    struct packet p = packet_of(ctx);
    struct ethhdr *eth = take(&p, sizeof(*eth));
    if (!eth)
        return XDP_DROP;
    __u32 tenant = eth->h_dest[5] & 63;
    __u32 entropy = mix(eth->h_source[5], eth->h_dest[5]);
    __u16 length = ctx->data_end - ctx->data;
    struct end *end = bpf_map_lookup_elem(&ends, &tenant);
    if (!end || !end->address)
        return XDP_PASS;
    if (bpf_xdp_adjust_head(ctx, -(int)sizeof(struct outer)))
        return XDP_ABORTED;
    p = packet_of(ctx);
    struct outer *outer = take(&p, sizeof(*outer));
    if (!outer)
        return XDP_ABORTED;
    __builtin_memset(outer, 0, sizeof(*outer));
    __builtin_memcpy(outer->eth.h_dest, end->mac, 6);
    outer->eth.h_proto = bpf_htons(ETH_P_IP);
    outer->ip.version = 4;
    outer->ip.ihl = 5;
    outer->ip.ttl = 64;
    outer->ip.protocol = IPPROTO_UDP;
    outer->ip.tot_len = bpf_htons(length + sizeof(*outer) - sizeof(outer->eth));
    outer->ip.daddr = end->address;
    outer->udp.source = bpf_htons(0xc000 | (entropy & 0x3fff));
    outer->udp.dest = bpf_htons(4789);
    outer->udp.len = bpf_htons(length + sizeof(struct udphdr) + sizeof(struct vxlan));
    outer->vxlan.flags = bpf_htonl(0x08000000);
    outer->vxlan.network = bpf_htonl(end->network << 8);
    return XDP_TX;
}
