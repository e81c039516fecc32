/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * icmp_echo: answers pings (RFC 792) on the NIC. Everything else goes to the operating system, also
 * pings to a group: an answer must not come from a broadcast or multicast address (RFC
 * 1122, 3.2.2.6).
 */
#include <nicforge.h>

NF_PORTS(1);

#define REPLY_TTL 64

struct echo_stats {
    uint64_t replies;
    uint64_t bytes;
};

NF_TABLE(array, stats, uint32_t, struct echo_stats, 1);

static inline void to_stack(nf_pkt pkt)
{
    nf_reset(pkt);
    nf_pass(pkt);
}

void net_recv(nf_pkt pkt)
{
    struct nf_eth eth;
    struct nf_ipv4 ip;
    struct nf_icmp icmp;

    if (!nf_extract(pkt, &eth)) {
        nf_drop(pkt, "shorter than an Ethernet header");
        return;
    }
    bool to_group = eth.dst.b[0] & 1;
    if (to_group || eth.type != nf_htons(NF_ETH_IPV4) || !nf_extract(pkt, &ip)) {
        to_stack(pkt);
        return;
    }
    if (ip.protocol != NF_IP_ICMP || ip.version != 4 || ip.ihl != 5 ||
        (ip.frag & nf_htons(NF_IPV4_MORE | NF_IPV4_OFFSET)) != 0) {
        to_stack(pkt);
        return;
    }
    if (!nf_extract(pkt, &icmp) || icmp.type != NF_ICMP_ECHO || icmp.code != 0) {
        to_stack(pkt);
        return;
    }

    /* Behind the message may be Ethernet padding; if it is cut short, the operating system shall
     * judge it. */
    uint32_t length = nf_ntohs(ip.length);
    uint32_t headers = sizeof(struct nf_ipv4) + sizeof(struct nf_icmp);
    if (length < headers || length - headers > nf_len(pkt)) {
        to_stack(pkt);
        return;
    }
    nf_add(&stats, 0, replies, 1);
    nf_add(&stats, 0, bytes, length - headers);

    nf_mac sender = eth.src;
    eth.src = eth.dst;
    eth.dst = sender;
    nf_be32 address = ip.src;
    ip.src = ip.dst;
    ip.dst = address;
    /* Addresses changed places, which leaves the IPv4 checksum as it is. Time to live and ICMP type
     * are each the high byte of a word; the low bytes stay, so they count as zero. */
    ip.csum =
        nf_csum_replace16(ip.csum, nf_htons((uint16_t)(ip.ttl << 8)), NF_HTONS(REPLY_TTL << 8));
    ip.ttl = REPLY_TTL;
    icmp.type = NF_ICMP_ECHO_REPLY;
    icmp.csum = nf_csum_replace16(icmp.csum, NF_HTONS(NF_ICMP_ECHO << 8),
                                  NF_HTONS(NF_ICMP_ECHO_REPLY << 8));

    nf_emit(pkt, &eth);
    nf_emit(pkt, &ip);
    nf_emit(pkt, &icmp);
    nf_send(pkt, nf_port(pkt));
}
