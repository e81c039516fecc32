/* Balances QUIC over IPv6 and walks extension headers with their options: hop-by-hop and
 * destination options are read option by option, up to ten of them. */
#include "xdp.h"

struct server {
    __u8 mac[8];
    __u32 address[4];
};

TABLE(servers, struct server, 256);

#define OPTIONS 10

SEC("xdp")
int quic_lb6(struct xdp_md *ctx)
{
    struct packet p = packet_of(ctx);
    struct ethhdr *eth = take(&p, sizeof *eth);
    if (!eth || eth->h_proto != bpf_htons(ETH_P_IPV6))
        return XDP_PASS;
    struct ipv6hdr *ip = take(&p, sizeof *ip);
    if (!ip || ip->version != 6)
        return XDP_PASS;
    __u8 next = ip->nexthdr;
    if (next == IPPROTO_HOPOPTS || next == IPPROTO_DSTOPTS) {
        __u8 *header = take(&p, 2);
        if (!header || header[1] > 3)
            return XDP_DROP;
        next = header[0];
        /* Bytes of options: 6 of the first 8, then 8 for each unit. */
        __u32 left = 6;
        for (int unit = 0; unit < 3; unit++)
            if (header[1] > unit)
                left += 8;
#pragma clang loop unroll(disable)
        for (int i = 0; i < OPTIONS; i++) {
            if (left == 0)
                break;
            __u8 *option = take(&p, 1);
            if (!option)
                return XDP_DROP;
            left--;
            /* One byte of padding. */
            if (*option == 0)
                continue;
            if (*option >> 6 && *option != 0xc2)
                return XDP_DROP;
            __u8 *length = take(&p, 1);
            if (!length || left == 0)
                return XDP_DROP;
            left--;
            __u32 size = *length;
            /* What follows an option is skipped in whole units, so that offsets stay constants. */
            if (size == 0)
                continue;
            if (size == 2) {
                if (left < 2 || !take(&p, 2))
                    return XDP_DROP;
                left -= 2;
            } else if (size == 4) {
                if (left < 4 || !take(&p, 4))
                    return XDP_DROP;
                left -= 4;
            } else {
                return XDP_PASS;
            }
        }
        if (left)
            return XDP_PASS;
    }
    if (next != IPPROTO_UDP)
        return XDP_PASS;
    struct udphdr *udp = take(&p, sizeof *udp);
    if (!udp || udp->dest != bpf_htons(443))
        return XDP_PASS;
    __u8 *quic = take(&p, 12);
    if (!quic)
        return XDP_DROP;
    __u32 key;
    if (quic[0] & 0x80) {
        if (quic[5] == 0 || (quic[0] & 0x30) == 0) {
            /* A first packet: the addresses decide. */
            key = mix(*(__u32 *)udp, ip->flow_lbl[0] & 15);
            for (int i = 0; i < 4; i++)
                key = mix(key, ip->saddr.in6_u.u6_addr32[i]);
            key &= 0xff;
        } else {
            key = quic[6];
        }
    } else {
        key = quic[1];
    }
    struct server *server = bpf_map_lookup_elem(&servers, &key);
    if (!server)
        return XDP_DROP;
    if (ip->hop_limit < 2)
        return XDP_DROP;
    ip->hop_limit--;
    __u32 sum = ~udp->check & 0xffff;
#pragma unroll
    for (int i = 0; i < 4; i++) {
        __u32 old = ip->daddr.in6_u.u6_addr32[i], new = server->address[i];
        sum += (~old & 0xffff) + (~old >> 16 & 0xffff) + (new & 0xffff) + (new >> 16);
        ip->daddr.in6_u.u6_addr32[i] = new;
    }
    sum = (sum & 0xffff) + (sum >> 16);
    sum = (sum & 0xffff) + (sum >> 16);
    udp->check = ~sum;
    *(__u32 *)eth->h_dest = *(__u32 *)server->mac;
    *(__u16 *)(eth->h_dest + 4) = *(__u16 *)(server->mac + 4);
    return XDP_TX;
}
