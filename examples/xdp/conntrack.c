/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * conntrack: TCP connections that the inside (interface 1) opens; answers alone come back in.
 */
#include "xdp.h"

struct pair {
    __u32 inside, outside;
    __u16 port, other;
};

struct state {
    __u64 packets;
    __u32 bytes;
    __u8 closing;
};

struct {
    __uint(type, BPF_MAP_TYPE_LRU_HASH);
    __uint(max_entries, 4096);
    __type(key, struct pair);
    __type(value, struct state);
} connections SEC(".maps");

const volatile __u32 inside = 1;

SEC("xdp") int conntrack(struct xdp_md *ctx)
{
    struct packet p = packet_of(ctx);
    struct ethhdr *eth = take(&p, sizeof(*eth));
    struct iphdr *ip = take(&p, sizeof(*ip));
    if (!eth || !ip || eth->h_proto != bpf_htons(ETH_P_IP) || ip->protocol != IPPROTO_TCP)
        return XDP_PASS;
    struct tcphdr *tcp = take(&p, sizeof(*tcp));
    if (!tcp || ip->ihl != 5)
        return XDP_DROP;
    struct pair pair = {};
    int leaves = ctx->ingress_ifindex == inside;
    pair.inside = leaves ? ip->saddr : ip->daddr;
    pair.outside = leaves ? ip->daddr : ip->saddr;
    pair.port = leaves ? tcp->source : tcp->dest;
    pair.other = leaves ? tcp->dest : tcp->source;
    struct state *known = bpf_map_lookup_elem(&connections, &pair);
    if (!known) {
        if (!leaves || !tcp->syn || tcp->ack)
            return XDP_DROP;
        struct state fresh = {.packets = 1, .bytes = bpf_ntohs(ip->tot_len)};
        bpf_map_update_elem(&connections, &pair, &fresh, BPF_ANY);
        return XDP_PASS;
    }
    known->packets++;
    known->bytes += bpf_ntohs(ip->tot_len);
    if (tcp->rst || (known->closing && tcp->ack))
        bpf_map_delete_elem(&connections, &pair);
    else if (tcp->fin)
        known->closing = 1;
    return XDP_PASS;
}
