/* SPDX-License-Identifier: 0BSD
 *
 * Protocol headers, as they are on the wire. Multi-byte members are in network order (nf_be16,
 * nf_be32).
 */
#ifndef NICFORGE_HEADERS_H
#define NICFORGE_HEADERS_H

#define NF_PACKED __attribute__((packed))

/* Ethernet II (IEEE 802.3). */
typedef struct nf_mac {
    uint8_t b[6];
} nf_mac;

struct NF_PACKED nf_eth {
    nf_mac dst;
    nf_mac src;
    nf_be16 type;
};

#define NF_ETH_IPV4 0x0800
#define NF_ETH_ARP 0x0806
#define NF_ETH_VLAN 0x8100
#define NF_ETH_QINQ 0x88a8
#define NF_ETH_IPV6 0x86dd

/* IEEE 802.1Q tag, behind an Ethernet type of NF_ETH_VLAN. */
struct NF_PACKED nf_vlan {
    nf_be16 tci; /* priority 3, drop eligible 1, identifier 12 bits */
    nf_be16 type;
};

/* IPv4 without options (RFC 791). */
struct NF_PACKED nf_ipv4 {
    uint8_t ihl : 4; /* header length in 32-bit words */
    uint8_t version : 4;
    uint8_t tos;
    nf_be16 length; /* header and payload, in bytes */
    nf_be16 id;
    nf_be16 frag; /* flags 3, offset 13 bits in units of 8 bytes */
    uint8_t ttl;
    uint8_t protocol;
    nf_be16 csum;
    nf_be32 src;
    nf_be32 dst;
};

#define NF_IP_ICMP 1
#define NF_IP_TCP 6
#define NF_IP_UDP 17
#define NF_IP_GRE 47
#define NF_IP_ICMPV6 58

#define NF_IPV4_MORE 0x2000
#define NF_IPV4_OFFSET 0x1fff

/* IPv6 (RFC 8200). */
typedef struct nf_ip6 {
    nf_be32 w[4];
} nf_ip6;

struct NF_PACKED nf_ipv6 {
    nf_be32 version_class_flow; /* version 4, traffic class 8, flow label 20 bits */
    nf_be16 payload_length;
    uint8_t next_header;
    uint8_t hop_limit;
    nf_ip6 src;
    nf_ip6 dst;
};

/* ICMP (RFC 792), echo and echo reply. */
struct NF_PACKED nf_icmp {
    uint8_t type;
    uint8_t code;
    nf_be16 csum;
    nf_be16 id;
    nf_be16 seq;
};

#define NF_ICMP_ECHO_REPLY 0
#define NF_ICMP_ECHO 8

/* UDP (RFC 768). */
struct NF_PACKED nf_udp {
    nf_be16 sport;
    nf_be16 dport;
    nf_be16 length;
    nf_be16 csum;
};

/* TCP without options (RFC 9293). */
struct NF_PACKED nf_tcp {
    nf_be16 sport;
    nf_be16 dport;
    nf_be32 seq;
    nf_be32 ack;
    uint8_t reserved : 4;
    uint8_t offset : 4; /* header length in 32-bit words */
    uint8_t flags;
    nf_be16 window;
    nf_be16 csum;
    nf_be16 urgent;
};

#define NF_TCP_FIN 0x01
#define NF_TCP_SYN 0x02
#define NF_TCP_RST 0x04
#define NF_TCP_PSH 0x08
#define NF_TCP_ACK 0x10

/* GRE without optional fields (RFC 2784). */
struct NF_PACKED nf_gre {
    nf_be16 flags_version;
    nf_be16 type;
};

/* VXLAN (RFC 7348). */
struct NF_PACKED nf_vxlan {
    uint8_t flags; /* 0x08: the identifier is valid */
    uint8_t reserved1[3];
    uint8_t vni[3];
    uint8_t reserved2;
};

#define NF_VXLAN_PORT 4789

/* What UDP and TCP checksums cover besides the segment (RFC 793, RFC 768). */
struct NF_PACKED nf_pseudo_ipv4 {
    nf_be32 src;
    nf_be32 dst;
    uint8_t zero;
    uint8_t protocol;
    nf_be16 length;
};

/* Addresses and ports of a flow; a usual table key. */
struct nf_flow {
    nf_be32 src;
    nf_be32 dst;
    nf_be16 sport;
    nf_be16 dport;
    uint8_t protocol;
};

#endif
