/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * arp_ndp: answers for hosts that it has in tables: ARP requests (RFC 826) and neighbour
 * solicitations (RFC 4861), so that broadcasts end at the NIC. Everything else goes on to the
 * operating system.
 */
#include <nicforge.h>

NF_PORTS(1);

#define ICMPV6 58
#define SOLICITATION 135
#define ADVERTISEMENT 136
#define OPTION_TARGET 2

struct arp {
    nf_be16 hardware, protocol;
    uint8_t sizes[2];
    nf_be16 operation;
    nf_mac sender_mac;
    nf_be32 sender;
    nf_mac target_mac;
    nf_be32 target;
} __attribute__((packed));

struct neighbour {
    uint8_t type, code;
    nf_be16 csum;
    nf_be32 flags;
    nf_ip6 target;
};

struct link_address {
    uint8_t type, words;
    nf_mac mac;
};

/* What is summed in front of an ICMPv6 message (RFC 8200, 8.1). */
struct pseudo {
    nf_ip6 src, dst;
    nf_be32 length, next;
};

NF_TABLE(hash, hosts, nf_be32, nf_mac, 4096);
NF_TABLE(hash, hosts6, nf_ip6, nf_mac, 4096);

static inline void answer_arp(nf_pkt pkt, struct nf_eth eth)
{
    struct arp arp;
    nf_mac mac;
    if (!nf_extract(pkt, &arp) || arp.operation != NF_HTONS(1) ||
        !nf_lookup(&hosts, arp.target, &mac)) {
        nf_reset(pkt);
        nf_pass(pkt);
        return;
    }
    nf_be32 asked = arp.target;
    arp.operation = NF_HTONS(2);
    arp.target_mac = arp.sender_mac;
    arp.target = arp.sender;
    arp.sender_mac = mac;
    arp.sender = asked;
    eth.dst = eth.src;
    eth.src = mac;
    nf_emit(pkt, &eth);
    nf_emit(pkt, &arp);
    nf_send(pkt, nf_port(pkt));
}

/* Hosts that look for a duplicate of their address ask without having one. */
static inline bool unspecified(nf_ip6 ip) { return !(ip.w[0] | ip.w[1] | ip.w[2] | ip.w[3]); }

static inline void answer_ndp(nf_pkt pkt, struct nf_eth eth)
{
    struct nf_ipv6 ip;
    struct neighbour ask;
    nf_mac mac;
    if (!nf_extract(pkt, &ip) || ip.next_header != ICMPV6 || ip.hop_limit != 255 ||
        !nf_extract(pkt, &ask) || ask.type != SOLICITATION || unspecified(ip.src) ||
        !nf_lookup(&hosts6, ask.target, &mac)) {
        nf_reset(pkt);
        nf_pass(pkt);
        return;
    }
    struct link_address option = {OPTION_TARGET, 1, mac};
    ip.dst = ip.src;
    ip.src = ask.target;
    ip.payload_length = NF_HTONS(sizeof(ask) + sizeof(option));
    ask.type = ADVERTISEMENT;
    ask.flags = nf_htonl(0x60000000); /* solicited, override */
    ask.csum = 0;
    struct pseudo pseudo = {ip.src, ip.dst, nf_htonl(sizeof(ask) + sizeof(option)),
                            nf_htonl(ICMPV6)};
    ask.csum = nf_csum_fold(nf_csum_add(nf_csum_add(nf_csum_add(0, pseudo), ask), option));
    eth.dst = eth.src;
    eth.src = mac;
    nf_emit(pkt, &eth);
    nf_emit(pkt, &ip);
    nf_emit(pkt, &ask);
    nf_emit(pkt, &option);
    nf_trim(pkt, 0);
    nf_send(pkt, nf_port(pkt));
}

void net_recv(nf_pkt pkt)
{
    struct nf_eth eth;
    if (!nf_extract(pkt, &eth)) {
        nf_drop(pkt, "shorter than an Ethernet header");
        return;
    }
    if (eth.type == NF_HTONS(NF_ETH_ARP)) {
        answer_arp(pkt, eth);
    } else if (eth.type == NF_HTONS(NF_ETH_IPV6)) {
        answer_ndp(pkt, eth);
    } else {
        nf_reset(pkt);
        nf_pass(pkt);
    }
}
