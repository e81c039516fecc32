/* Balances QUIC over IPv4: the server is the one the connection id names, or chosen by a hash of
 * the addresses for a first packet; its addresses come from a table, and checksums are repaired. */
#include "xdp.h"

struct server {
    __u8 mac[8];
    __be32 address;
    __u32 alive;
};

TABLE(servers, struct server, 256);

INLINE __u16 fold(__u32 sum)
{
    sum = (sum & 0xffff) + (sum >> 16);
    return (sum & 0xffff) + (sum >> 16);
}

SEC("xdp")
int quic_lb4(struct xdp_md *ctx)
{
    struct packet p = packet_of(ctx);
    struct ethhdr *eth = take(&p, sizeof *eth);
    if (!eth || eth->h_proto != bpf_htons(ETH_P_IP))
        return XDP_PASS;
    struct iphdr *ip = take(&p, sizeof *ip);
    if (!ip || ip->ihl != 5 || ip->protocol != IPPROTO_UDP)
        return XDP_PASS;
    if (ip->frag_off & bpf_htons(0x3fff))
        return XDP_DROP;
    struct udphdr *udp = take(&p, sizeof *udp);
    if (!udp || udp->dest != bpf_htons(443))
        return XDP_PASS;
    __u8 *quic = take(&p, 14);
    if (!quic)
        return XDP_DROP;
    __u32 key;
    if (quic[0] & 0x80) {
        /* Long header: version, length of the connection id, the id. */
        if (quic[5] == 0 || (quic[0] & 0x30) == 0) {
            key = mix(ip->saddr, ip->daddr);
            key = mix(key, *(__u32 *)udp);
        } else {
            key = quic[6];
            if (quic[5] >= 4)
                key ^= mix(*(__u32 *)(quic + 7), quic[11]) & 1;
            if (quic[5] >= 7)
                key ^= mix(quic[12] << 8 | quic[13], key) & 3;
        }
    } else {
        key = quic[1];
    }
    key &= 0xff;
    /* A packet that has been through too many balancers goes in circles. */
    if (ip->ttl < 2)
        return XDP_DROP;
    struct server *server = bpf_map_lookup_elem(&servers, &key);
    if (!server)
        return XDP_DROP;
    if (!server->alive) {
        /* The neighbour takes over, chosen by what stays the same for a connection. */
        key = mix(mix(ip->saddr, *(__u32 *)udp), key) & 0xff;
        server = bpf_map_lookup_elem(&servers, &key);
        if (!server || !server->alive)
            return XDP_DROP;
    }
    /* The hop count goes down, and the checksum with it. */
    ip->ttl--;
    __u32 hop = ip->check + (__u32)bpf_htons(0x100);
    ip->check = hop + (hop >= 0xffff);
    __be32 old = ip->daddr, new = server->address;
    __u32 sum = (~ip->check & 0xffff) + (~old & 0xffff) + (~old >> 16 & 0xffff);
    sum += (new & 0xffff) + (new >> 16);
    ip->check = ~fold(sum);
    if (udp->check) {
        sum = (~udp->check & 0xffff) + (~old & 0xffff) + (~old >> 16 & 0xffff);
        sum += (new & 0xffff) + (new >> 16);
        udp->check = ~fold(sum);
    }
    ip->daddr = new;
    /* Fragments were dropped, so the length in both headers must agree. */
    if (bpf_ntohs(ip->tot_len) != bpf_ntohs(udp->len) + sizeof *ip)
        return XDP_DROP;
    *(__u32 *)eth->h_source = *(__u32 *)eth->h_dest;
    *(__u16 *)(eth->h_source + 4) = *(__u16 *)(eth->h_dest + 4);
    *(__u32 *)eth->h_dest = *(__u32 *)server->mac;
    *(__u16 *)(eth->h_dest + 4) = *(__u16 *)(server->mac + 4);
    return XDP_TX;
}
