/* Parses deep stacks of headers, as an ingress parser of a switch does: up to two VLAN tags, up to
 * three MPLS labels, IPv4 with options, IPv6 with two extension headers, GRE, then TCP, UDP or
 * ICMP; checks each as far as it goes. */
#include "xdp.h"

struct vlan {
    __be16 tci;
    __be16 type;
};

struct gre {
    __be16 flags;
    __be16 type;
};

struct verdicts {
    __u64 count[4];
};

TABLE(parsed, struct verdicts, 64);

/* A header that says what follows and how long it is. */
struct extension {
    __u8 next;
    __u8 length;
};

enum layer { UNKNOWN, IP4, IP6, TRANSPORT };

INLINE int count(__u32 kind)
{
    struct verdicts *v = bpf_map_lookup_elem(&parsed, &kind);
    if (v)
        __sync_fetch_and_add(&v->count[0], 1);
    return kind & 1 ? XDP_PASS : XDP_DROP;
}

INLINE int transport(struct packet *p, __u8 protocol, __u32 kind)
{
    if (protocol == IPPROTO_TCP) {
        struct tcphdr *tcp = take(p, sizeof *tcp);
        if (!tcp)
            return count(kind | 2);
        if (tcp->doff < 5 || (tcp->syn && tcp->fin))
            return count(kind | 4);
        if (tcp->dest == bpf_htons(22) && tcp->syn)
            return count(kind | 6);
        return count(kind | 1);
    }
    if (protocol == IPPROTO_UDP) {
        struct udphdr *udp = take(p, sizeof *udp);
        if (!udp)
            return count(kind | 2);
        if (bpf_ntohs(udp->len) < sizeof *udp)
            return count(kind | 4);
        return count(kind | 3);
    }
    if (protocol == IPPROTO_ICMP || protocol == IPPROTO_ICMPV6) {
        __u8 *icmp = take(p, 8);
        if (!icmp)
            return count(kind | 2);
        return count(kind | (icmp[0] == 8 || icmp[0] == 128 ? 5 : 4));
    }
    return count(kind | 7);
}

INLINE int ip4(struct packet *p, __u32 kind)
{
    struct iphdr *ip = take(p, sizeof *ip);
    if (!ip || ip->version != 4 || ip->ihl < 5)
        return count(kind);
    if (ip->frag_off & bpf_htons(0x1fff))
        return count(kind | 2);
    /* Options are skipped a word at a time, so that offsets stay constants. */
    __u8 words = ip->ihl - 5, protocol = ip->protocol;
#pragma unroll
    for (int i = 0; i < 3; i++)
        if (words > i && !take(p, 4))
            return count(kind | 4);
    if (words > 3)
        return count(kind | 6);
    return transport(p, protocol, kind | 8);
}

INLINE int ip6(struct packet *p, __u32 kind)
{
    struct ipv6hdr *ip = take(p, sizeof *ip);
    if (!ip || ip->version != 6)
        return count(kind);
    __u8 next = ip->nexthdr;
#pragma unroll
    for (int i = 0; i < 2; i++) {
        if (next != IPPROTO_HOPOPTS && next != IPPROTO_ROUTING && next != IPPROTO_DSTOPTS)
            break;
        struct extension *header = take(p, 8);
        if (!header)
            return count(kind | 2);
        if (header->length > 1)
            return count(kind | 4);
        next = header->next;
        if (header->length == 1 && !take(p, 8))
            return count(kind | 6);
    }
    return transport(p, next, kind | 16);
}

SEC("xdp")
int header_parser(struct xdp_md *ctx)
{
    struct packet p = packet_of(ctx);
    struct ethhdr *eth = take(&p, sizeof *eth);
    if (!eth)
        return XDP_ABORTED;
    __be16 type = eth->h_proto;
#pragma unroll
    for (int i = 0; i < 2; i++) {
        if (type != bpf_htons(ETH_P_8021Q) && type != bpf_htons(ETH_P_8021AD))
            break;
        struct vlan *vlan = take(&p, sizeof *vlan);
        if (!vlan)
            return XDP_DROP;
        if ((bpf_ntohs(vlan->tci) & 0xfff) == 0xfff)
            return count(62);
        type = vlan->type;
    }
    if (type == bpf_htons(ETH_P_MPLS_UC)) {
        __u8 bottom = 0;
#pragma unroll
        for (int i = 0; i < 3; i++) {
            if (bottom)
                break;
            __u8 *label = take(&p, 4);
            if (!label)
                return XDP_DROP;
            if (label[3] == 0)
                return count(60);
            bottom = label[2] & 1;
        }
        if (!bottom)
            return count(58);
        __u8 *first = p.at;
        if (p.at + 1 > p.end)
            return XDP_DROP;
        type = *first >> 4 == 4 ? bpf_htons(ETH_P_IP) : bpf_htons(ETH_P_IPV6);
    }
    if (type == bpf_htons(ETH_P_IP))
        return ip4(&p, 0);
    if (type == bpf_htons(ETH_P_IPV6))
        return ip6(&p, 32);
    return XDP_PASS;
}
