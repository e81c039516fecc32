/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * syn_cookie: answers a SYN by itself; only clients that come back get through.
 */
#include "xdp.h"

TABLE(passed, __u64, 2);

INLINE __u32 cookie(struct iphdr *ip, struct tcphdr *tcp)
{
    __u32 ports = tcp->source | (__u32)tcp->dest << 16;
    return mix(mix(mix(0x5eed, ip->saddr), ip->daddr), ports);
}

INLINE void count(__u32 which)
{
    __u64 *counter = bpf_map_lookup_elem(&passed, &which);
    if (counter)
        *counter += 1;
}

SEC("xdp") int syn_cookie(struct xdp_md *ctx)
{
    struct packet p = packet_of(ctx);
    struct ethhdr *eth = take(&p, sizeof(*eth));
    struct iphdr *ip = take(&p, sizeof(*ip));
    struct tcphdr *tcp = take(&p, sizeof(*tcp));
    if (!eth || !ip || !tcp || eth->h_proto != bpf_htons(ETH_P_IP))
        return XDP_PASS;
    if (ip->ihl != 5 || ip->protocol != IPPROTO_TCP || tcp->rst)
        return XDP_PASS;
    if (!tcp->syn) {
        count(0);
        __u32 back = bpf_ntohl(tcp->ack_seq) - 1;
        return tcp->ack && back == cookie(ip, tcp) ? XDP_PASS : XDP_DROP;
    }
    count(1);
    __u8 mac[6];
    __builtin_memcpy(mac, eth->h_source, 6);
    __builtin_memcpy(eth->h_source, eth->h_dest, 6);
    __builtin_memcpy(eth->h_dest, mac, 6);
    __u32 number = bpf_htonl(cookie(ip, tcp)), next = bpf_htonl(bpf_ntohl(tcp->seq) + 1);
    __u16 check = changed(tcp->check, tcp->seq, number);
    check = changed(check, tcp->ack_seq, next);
    tcp->seq = number;
    tcp->ack_seq = next;
    check = changed(check, 0, bpf_htons(0x0010));
    tcp->ack = 1;
    tcp->check = check;
    __u32 address = ip->saddr;
    ip->saddr = ip->daddr;
    ip->daddr = address;
    __u16 port = tcp->source;
    tcp->source = tcp->dest;
    tcp->dest = port;
    return XDP_TX;
}
