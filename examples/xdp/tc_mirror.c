/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * tc_mirror: a tc program that gives every DNS packet to another interface too.
 */
#include "xdp.h"

#include <linux/pkt_cls.h>

TABLE(mirrored, __u64, 2);

SEC("tc/ingress") int tc_mirror(struct __sk_buff *skb)
{
    struct packet p = {(void *)(long)skb->data, (void *)(long)skb->data_end};
    struct ethhdr *eth = take(&p, sizeof(*eth));
    struct iphdr *ip = take(&p, sizeof(*ip));
    struct udphdr *udp = take(&p, sizeof(*udp));
    if (!eth || !ip || !udp || eth->h_proto != bpf_htons(ETH_P_IP))
        return TC_ACT_OK;
    if (ip->ihl != 5 || ip->protocol != IPPROTO_UDP || udp->dest != bpf_htons(53))
        return TC_ACT_OK;
    __u32 which = skb->len > 200;
    __u64 *count = bpf_map_lookup_elem(&mirrored, &which);
    if (count)
        *count += 1;
    bpf_clone_redirect(skb, skb->ifindex, 0);
    return TC_ACT_OK;
}
