/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * too_big: tells senders of packets that are too long (RFC 1191).
 */
#include "xdp.h"

#define MTU 300

struct message {
    __u8 type, code;
    __be16 check, unused, mtu;
};

struct answer {
    struct ethhdr eth;
    struct iphdr outer;
    struct message message;
    struct iphdr inner;
    __u8 rest[8];
} __attribute__((packed));

SEC("xdp") int too_big(struct xdp_md *ctx)
{
    struct packet p = packet_of(ctx);
    struct ethhdr *eth = take(&p, sizeof(*eth));
    struct iphdr *ip = take(&p, sizeof(*ip));
    if (!eth || !ip || eth->h_proto != bpf_htons(ETH_P_IP) || ip->ihl != 5)
        return XDP_PASS;
    __u32 length = ctx->data_end - ctx->data;
    __u8 to[6], from[6];
    __builtin_memcpy(to, eth->h_source, 6);
    __builtin_memcpy(from, eth->h_dest, 6);
    if (length <= MTU || !(ip->frag_off & bpf_htons(0x4000)))
        return XDP_PASS;
    /* What comes back: the header and eight bytes. */
    if (bpf_xdp_adjust_tail(ctx, (int)(sizeof(*eth) + sizeof(*ip) + 8) - (int)length))
        return XDP_ABORTED;
    if (bpf_xdp_adjust_head(ctx, -(int)(sizeof(*ip) + sizeof(struct message))))
        return XDP_ABORTED;
    p = packet_of(ctx);
    struct answer *answer = take(&p, sizeof(*answer));
    if (!answer)
        return XDP_ABORTED;
    struct ethhdr *new = &answer->eth;
    struct iphdr *outer = &answer->outer;
    struct message *message = &answer->message;
    ip = &answer->inner;
    __builtin_memset(outer, 0, sizeof(*outer));
    outer->version = 4;
    outer->ihl = 5;
    outer->ttl = 64;
    outer->protocol = IPPROTO_ICMP;
    outer->tot_len = bpf_htons(2 * sizeof(*ip) + sizeof(*message) + 8);
    outer->saddr = ip->daddr;
    outer->daddr = ip->saddr;
    __u32 sum = 0;
    __u16 *words = (__u16 *)outer;
#pragma clang loop unroll(full)
    for (int i = 0; i < 10; i++)
        sum += words[i];
    outer->check = folded(sum);
    message->type = 3;
    message->code = 4;
    message->check = 0;
    message->unused = 0;
    message->mtu = bpf_htons(MTU - sizeof(*new));
    sum = 0;
    words = (__u16 *)message;
#pragma clang loop unroll(full)
    for (int i = 0; i < 18; i++)
        sum += words[i];
    message->check = folded(sum);
    __builtin_memcpy(new->h_dest, to, 6);
    __builtin_memcpy(new->h_source, from, 6);
    new->h_proto = bpf_htons(ETH_P_IP);
    return XDP_TX;
}
