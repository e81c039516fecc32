/* A filter against floods: drops TCP and UDP packets whose first bytes have one of the shapes an
 * attack had, and hashes the rest of what a signature looks at into a table of blocked flows. */
#include "xdp.h"

TABLE(blocked, __u64, 4096);

SEC("xdp")
int dos_filter(struct xdp_md *ctx)
{
    struct packet p = packet_of(ctx);
    struct ethhdr *eth = take(&p, sizeof *eth);
    if (!eth || eth->h_proto != bpf_htons(ETH_P_IP))
        return XDP_PASS;
    struct iphdr *ip = take(&p, sizeof *ip);
    if (!ip || ip->ihl != 5)
        return XDP_PASS;
    if (ip->frag_off & bpf_htons(0x3fff))
        return XDP_DROP;
    if (ip->ttl < 5)
        return XDP_DROP;
    __u32 hash = mix(ip->saddr, ip->daddr);
    if (ip->protocol == IPPROTO_TCP) {
        struct tcphdr *tcp = take(&p, sizeof *tcp);
        if (!tcp)
            return XDP_DROP;
        /* SYN without options and with a window that no system uses. */
        if (tcp->syn && !tcp->ack) {
            if (tcp->doff == 5 && tcp->window == bpf_htons(5840) && ip->ttl > 128)
                return XDP_DROP;
            if (ip->tot_len == bpf_htons(40) && tcp->seq == tcp->ack_seq)
                return XDP_DROP;
        }
        if (tcp->rst && tcp->window == 0 && ip->id == 0)
            return XDP_DROP;
        /* Floods that were seen: a fixed sequence number, sequence numbers that repeat the address,
         * urgent data nobody sends. */
        if (tcp->seq == bpf_htonl(0x04d20000) || tcp->seq == ip->saddr || tcp->ack_seq == ip->daddr)
            return XDP_DROP;
        if (tcp->urg && tcp->urg_ptr == 0)
            return XDP_DROP;
        if (tcp->source == tcp->dest && ip->saddr == ip->daddr)
            return XDP_DROP;
        if (tcp->doff > 5) {
            /* The first options of every system are a segment size or padding. */
            __u8 *option = take(&p, 4);
            if (!option)
                return XDP_DROP;
            if (tcp->syn && option[0] != 2 && option[0] != 1)
                return XDP_DROP;
            if (option[0] == 2 && (option[1] != 4 || (option[2] << 8 | option[3]) < 536))
                return XDP_DROP;
        }
        hash = mix(hash, *(__u32 *)tcp);
        hash = mix(hash, tcp->window);
    } else if (ip->protocol == IPPROTO_UDP) {
        struct udphdr *udp = take(&p, sizeof *udp);
        if (!udp)
            return XDP_DROP;
        /* Answers nobody asked for: DNS, NTP, SSDP, memcached. */
        __be16 from = udp->source;
        if (from == bpf_htons(53) || from == bpf_htons(123) || from == bpf_htons(1900) ||
            from == bpf_htons(11211)) {
            __u32 *body = take(&p, 8);
            if (!body)
                return XDP_DROP;
            if (from == bpf_htons(123) && (body[0] & 0x7) == 7)
                return XDP_DROP;
            hash = mix(hash, body[1]);
        }
        hash = mix(hash, udp->source);
    } else {
        return XDP_PASS;
    }
    __u32 key = hash & 4095;
    __u64 *found = bpf_map_lookup_elem(&blocked, &key);
    if (!found)
        return XDP_PASS;
    return *(__u32 *)found == ip->saddr ? XDP_DROP : XDP_PASS;
}
