/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * nat44: another source address for hosts that have one in a table, with checksums (RFC 1624).
 */
#include "xdp.h"

struct {
    __uint(type, BPF_MAP_TYPE_HASH);
    __uint(max_entries, 512);
    __type(key, __u32);
    __type(value, __u32);
} addresses SEC(".maps");

SEC("xdp") int nat44(struct xdp_md *ctx)
{
    struct packet p = packet_of(ctx);
    struct ethhdr *eth = take(&p, sizeof(*eth));
    struct iphdr *ip = take(&p, sizeof(*ip));
    if (!eth || !ip || eth->h_proto != bpf_htons(ETH_P_IP) || ip->ihl != 5)
        return XDP_PASS;
    __u32 from = ip->saddr, *to = bpf_map_lookup_elem(&addresses, &from);
    if (!to) {
        __u32 fresh = bpf_htonl(0xc0000200) | (from & bpf_htonl(0xff));
        bpf_map_update_elem(&addresses, &from, &fresh, BPF_ANY);
        return XDP_DROP;
    }
    if (ip->protocol == IPPROTO_TCP) {
        struct tcphdr *tcp = take(&p, sizeof(*tcp));
        if (!tcp)
            return XDP_DROP;
        tcp->check = changed(tcp->check, from, *to);
    } else if (ip->protocol == IPPROTO_UDP) {
        struct udphdr *udp = take(&p, sizeof(*udp));
        if (!udp)
            return XDP_DROP;
        if (udp->check) {
            __u16 check = changed(udp->check, from, *to);
            udp->check = check ? check : 0xffff;
        }
    }
    ip->check = changed(ip->check, from, *to);
    ip->saddr = *to;
    return XDP_TX;
}
