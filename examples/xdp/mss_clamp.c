/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * mss_clamp: bounds the segment size that a SYN asks for, among up to ten options (RFC 9293).
 */
#include "xdp.h"

#define MOST 1360

SEC("xdp") int mss_clamp(struct xdp_md *ctx)
{
    struct packet p = packet_of(ctx);
    struct ethhdr *eth = take(&p, sizeof(*eth));
    struct iphdr *ip = take(&p, sizeof(*ip));
    struct tcphdr *tcp = take(&p, sizeof(*tcp));
    if (!eth || !ip || !tcp || eth->h_proto != bpf_htons(ETH_P_IP) || ip->ihl != 5)
        return XDP_PASS;
    if (ip->protocol != IPPROTO_TCP || !tcp->syn)
        return XDP_PASS;
    for (int i = 0; i < 10; i++) {
        __u8 *option = take(&p, 1);
        if (!option || *option == 0)
            break;
        if (*option == 1)
            continue;
        __u8 *length = take(&p, 1);
        if (!length || *length < 2 || *length > 10)
            return XDP_DROP;
        if (*option == 2 && *length == 4) {
            __be16 *size = take(&p, 2);
            if (!size)
                return XDP_DROP;
            if (bpf_ntohs(*size) > MOST) {
                __u32 sum = (__u16)~tcp->check + (__u16) ~*size + bpf_htons(MOST);
                sum = (sum & 0xffff) + (sum >> 16);
                tcp->check = ~(__u16)(sum + (sum >> 16));
                *size = bpf_htons(MOST);
            }
            break;
        }
        if (!take(&p, *length - 2))
            return XDP_DROP;
    }
    return XDP_PASS;
}
