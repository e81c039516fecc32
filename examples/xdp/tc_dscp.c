/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * tc_dscp: a tc program that marks packets (RFC 2474) by the port of their service.
 */
#include "xdp.h"

#include <linux/pkt_cls.h>

struct {
    __uint(type, BPF_MAP_TYPE_HASH);
    __uint(max_entries, 64);
    __type(key, __u16);
    __type(value, __u8);
} classes SEC(".maps");

SEC("tc") int tc_dscp(struct __sk_buff *skb)
{
    struct iphdr ip;
    __u16 port;
    if (skb->protocol != bpf_htons(ETH_P_IP))
        return TC_ACT_OK;
    if (bpf_skb_load_bytes(skb, ETH_HLEN, &ip, sizeof(ip)))
        return TC_ACT_SHOT;
    if (ip.protocol != IPPROTO_TCP && ip.protocol != IPPROTO_UDP)
        return TC_ACT_OK;
    if (bpf_skb_load_bytes(skb, ETH_HLEN + ip.ihl * 4 + 2, &port, sizeof(port)))
        return TC_ACT_SHOT;
    __u8 *class = bpf_map_lookup_elem(&classes, &port), marked;
    marked = class ? *class << 2 : port == bpf_htons(53) ? 0x28 : 0;
    marked |= ip.tos & 3;
    __u32 at = ETH_HLEN + offsetof(struct iphdr, tos);
    bpf_l3_csum_replace(skb, ETH_HLEN + offsetof(struct iphdr, check), bpf_htons(ip.tos),
                        bpf_htons(marked), 2);
    bpf_skb_store_bytes(skb, at, &marked, 1, 0);
    skb->priority = marked >> 5;
    return TC_ACT_OK;
}
