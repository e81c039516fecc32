/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * vxlan_gw by hand: a VXLAN tunnel endpoint between port 0 and the underlay on port 1.
 */
#include "common.h"

#define LOCAL 0
#define UNDERLAY 1
#define VXLAN_PORT 4789

struct self {
    __be32 address;
    __u8 mac[ETH_ALEN];
    __u8 vni[3];
    __u8 pad[3];
};

struct mac {
    __u8 b[ETH_ALEN];
};

struct peer {
    __be32 address;
    __u8 mac[ETH_ALEN];
    __u8 pad[2];
};

struct vxlan {
    __u8 flags;
    __u8 reserved[3];
    __u8 vni[3];
    __u8 also_reserved;
};

struct outer {
    struct ethhdr eth;
    struct iphdr ip;
    struct udphdr udp;
    struct vxlan vxlan;
} __attribute__((packed));

struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(max_entries, 1);
    __type(key, __u32);
    __type(value, struct self);
} config SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_HASH);
    __uint(max_entries, 4096);
    __type(key, struct mac);
    __type(value, struct peer);
} peers SEC(".maps");

COUNTERS(6, 2);

static __always_inline int wrap(struct xdp_md *ctx, const struct self *self)
{
    struct ethhdr *inner = (void *)(long)ctx->data;
    void *end = (void *)(long)ctx->data_end;
    if ((void *)(inner + 1) > end)
        return drop(0);
    struct mac to __attribute__((aligned(8)));
    copy_mac(&to, inner->h_dest);
    struct peer *peer = bpf_map_lookup_elem(&peers, &to);
    if (!peer)
        return drop(1);
    __u32 frame = end - (void *)inner;
    __u32 flow = hash(0, inner, sizeof(*inner));
    if (bpf_xdp_adjust_head(ctx, -(int)sizeof(struct outer)))
        return XDP_ABORTED;
    struct outer *outer = (void *)(long)ctx->data;
    if ((void *)(outer + 1) > (void *)(long)ctx->data_end)
        return XDP_ABORTED;
    copy_mac(outer->eth.h_dest, peer->mac);
    copy_mac(outer->eth.h_source, self->mac);
    outer->eth.h_proto = bpf_htons(ETH_P_IP);
    __be16 length = bpf_htons(sizeof(*outer) - sizeof(outer->eth) + frame);
    *(__u16 *)(void *)&outer->ip = bpf_htons(0x4500);
    outer->ip.tot_len = length;
    outer->ip.id = 0;
    outer->ip.frag_off = bpf_htons(0x4000);
    outer->ip.ttl = 64;
    outer->ip.protocol = IPPROTO_UDP;
    outer->ip.saddr = self->address;
    outer->ip.daddr = peer->address;
    /* All words but length and addresses are constants. */
    __u64 constant = bpf_htons(0x4500) + bpf_htons(0x4000) + bpf_htons(64 << 8 | IPPROTO_UDP);
    outer->ip.check = patch_csum(0xffff, constant + length + self->address + peer->address);
    outer->udp.source = bpf_htons(0xc000 | (flow & 0x3fff));
    outer->udp.dest = bpf_htons(VXLAN_PORT);
    outer->udp.len = bpf_htons(sizeof(outer->udp) + sizeof(outer->vxlan) + frame);
    outer->udp.check = 0;
    *(__u32 *)(void *)&outer->vxlan = bpf_htonl(0x08000000);
    *(__u16 *)outer->vxlan.vni = *(const __u16 *)self->vni;
    outer->vxlan.vni[2] = self->vni[2];
    outer->vxlan.also_reserved = 0;
    return send(UNDERLAY);
}

static __always_inline int unwrap(struct xdp_md *ctx, const struct self *self)
{
    struct outer *outer = (void *)(long)ctx->data;
    void *end = (void *)(long)ctx->data_end;
    if ((void *)&outer->vxlan > end || outer->eth.h_proto != bpf_htons(ETH_P_IP) ||
        outer->ip.protocol != IPPROTO_UDP || outer->ip.ihl != 5 ||
        (outer->ip.frag_off & bpf_htons(0x3fff)) || outer->ip.daddr != self->address ||
        outer->udp.dest != bpf_htons(VXLAN_PORT))
        return pass();
    if ((void *)(outer + 1) > end || !(outer->vxlan.flags & 0x08))
        return drop(2);
    if (*(__u16 *)outer->vxlan.vni != *(const __u16 *)self->vni ||
        outer->vxlan.vni[2] != self->vni[2])
        return drop(3);
    if ((void *)(outer + 1) + sizeof(struct ethhdr) > end)
        return drop(4);
    if (bpf_xdp_adjust_head(ctx, sizeof(*outer)))
        return XDP_ABORTED;
    return send(LOCAL);
}

SEC("xdp")
int nf_net_recv(struct xdp_md *ctx)
{
    __u32 zero = 0;
    struct self *self = bpf_map_lookup_elem(&config, &zero);
    if (!self)
        return XDP_ABORTED;
    return in_port(ctx) == LOCAL ? wrap(ctx, self) : unwrap(ctx, self);
}
