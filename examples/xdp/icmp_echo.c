/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * icmp_echo: answers pings.
 */
#include "xdp.h"

struct echo {
    __u8 type, code;
    __be16 check, id, number;
};

SEC("xdp") int icmp_echo(struct xdp_md *ctx)
{
    struct packet p = packet_of(ctx);
    struct ethhdr *eth = take(&p, sizeof(*eth));
    struct iphdr *ip = take(&p, sizeof(*ip));
    struct echo *echo = take(&p, sizeof(*echo));
    if (!eth || !ip || !echo || eth->h_proto != bpf_htons(ETH_P_IP) || ip->ihl != 5)
        return XDP_PASS;
    if (ip->protocol != IPPROTO_ICMP || echo->type != 8 || echo->code != 0)
        return XDP_PASS;
    __u8 mac[6];
    __builtin_memcpy(mac, eth->h_source, 6);
    __builtin_memcpy(eth->h_source, eth->h_dest, 6);
    __builtin_memcpy(eth->h_dest, mac, 6);
    __u32 address = ip->saddr;
    ip->saddr = ip->daddr;
    ip->daddr = address;
    echo->type = 0;
    __u32 sum = echo->check + bpf_htons(0x0800);
    echo->check = sum + (sum >> 16);
    return XDP_TX;
}
