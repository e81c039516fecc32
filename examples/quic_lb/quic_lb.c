/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * quic_lb: a stateless load balancer for QUIC (RFC 9000) over IPv4 and IPv6. Servers put their
 * number into the connection identifiers they hand out (the plain-text form of the IETF QUIC-LB
 * draft: one configuration byte, then a server identifier of two bytes; a first byte of 111xxxxx
 * says that there is none), so a connection stays with its server when the client's address
 * changes. Packets that carry no such identifier yet go by a hash of addresses and ports. Servers
 * answer the client directly.
 */
#include <nicforge.h>

NF_PORTS(2);

#define CLIENTS 0
#define SERVERS 1
#define QUIC_PORT 443
#define RING 64
#define UNROUTABLE 7 /* upper three bits of an identifier without a server in it */

struct server {
    nf_mac mac;
};

struct server_id {
    uint8_t b[2];
};

NF_TABLE(hash, servers, struct server_id, struct server, 256);
/* Where connections without an identifier go. */
NF_TABLE(array, ring, uint32_t, struct server, RING);

struct endpoints {
    nf_ip6 src;
    nf_ip6 dst;
    nf_be16 sport;
    nf_be16 dport;
};

/* Long header: flags, version, length of the destination identifier; it follows. */
struct NF_PACKED long_header {
    uint8_t flags;
    nf_be32 version;
    uint8_t dcid_length;
    uint8_t dcid[4];
};

/* Short header: flags, then the destination identifier. */
struct NF_PACKED short_header {
    uint8_t flags;
    uint8_t dcid[4];
};

void net_recv(nf_pkt pkt)
{
    struct nf_eth eth;
    struct nf_ipv4 ip4;
    struct nf_ipv6 ip6;
    struct nf_udp udp;
    struct endpoints ends = {0};

    if (nf_port(pkt) == SERVERS) {
        nf_send(pkt, CLIENTS);
        return;
    }
    if (!nf_extract(pkt, &eth)) {
        nf_drop(pkt, "shorter than an Ethernet header");
        return;
    }
    uint8_t protocol = 0;
    if (eth.type == nf_htons(NF_ETH_IPV4)) {
        if (!nf_extract(pkt, &ip4)) {
            nf_drop(pkt, "shorter than an IPv4 header");
            return;
        }
        if (!nf_strip(pkt, ip4.ihl > 5 ? (uint32_t)(ip4.ihl - 5) * 4 : 0)) {
            nf_drop(pkt, "truncated options");
            return;
        }
        if ((ip4.frag & nf_htons(NF_IPV4_MORE | NF_IPV4_OFFSET)) == 0)
            protocol = ip4.protocol;
        ends.src.w[0] = ip4.src;
        ends.dst.w[0] = ip4.dst;
    } else if (eth.type == nf_htons(NF_ETH_IPV6)) {
        if (!nf_extract(pkt, &ip6)) {
            nf_drop(pkt, "shorter than an IPv6 header");
            return;
        }
        protocol = ip6.next_header;
        ends.src = ip6.src;
        ends.dst = ip6.dst;
    }
    if (protocol != NF_IP_UDP || !nf_extract(pkt, &udp) || udp.dport != nf_htons(QUIC_PORT)) {
        nf_reset(pkt);
        nf_pass(pkt);
        return;
    }
    if (nf_ntohs(udp.length) < sizeof(udp)) {
        nf_drop(pkt, "bad UDP length");
        return;
    }
    ends.sport = udp.sport;
    ends.dport = udp.dport;

    struct server_id id = {0};
    bool has_id = false;
    /* Behind the datagram may be Ethernet padding, which is no identifier. */
    uint32_t content = nf_ntohs(udp.length) - sizeof(udp);
    uint8_t flags = 0;
    nf_load(pkt, 0, &flags);
    if (flags & 0x80) {
        struct long_header header;
        if (content >= sizeof(header) && nf_load(pkt, 0, &header) && header.dcid_length >= 4 &&
            header.dcid[0] >> 5 != UNROUTABLE) {
            id.b[0] = header.dcid[1];
            id.b[1] = header.dcid[2];
            has_id = true;
        }
    } else {
        struct short_header header;
        if (content >= sizeof(header) && nf_load(pkt, 0, &header) &&
            header.dcid[0] >> 5 != UNROUTABLE) {
            id.b[0] = header.dcid[1];
            id.b[1] = header.dcid[2];
            has_id = true;
        }
    }
    struct server server;
    if (!has_id || !nf_lookup(&servers, id, &server))
        nf_lookup(&ring, nf_hash(0, ends) % RING, &server);
    nf_reset(pkt);
    nf_extract(pkt, &eth);
    eth.dst = server.mac;
    nf_emit(pkt, &eth);
    nf_send(pkt, SERVERS);
}
