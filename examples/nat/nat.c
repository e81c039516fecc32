/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * nat: source address and port translation (RFC 3022, RFC 4787: endpoint-independent mapping).
 * Hosts inside (port 0) share one address outside (port 1). Checksums are updated incrementally
 * (RFC 1624).
 */
#include <nicforge.h>

NF_PORTS(2);

#define INSIDE 0
#define OUTSIDE 1
#define FIRST_PORT 1024u
#define PORTS 64512u
#define TRIES 8

struct settings {
    nf_be32 address; /* the one outside */
    nf_mac inside_mac;
    nf_mac outside_mac;
    nf_mac gateway; /* next hop outside */
};

struct endpoint {
    nf_be32 address;
    nf_be16 port;
    uint8_t protocol;
};

struct outside_port {
    nf_be16 port;
};

struct outside_key {
    nf_be16 port;
    uint8_t protocol;
};

struct host {
    nf_be32 address;
    nf_be16 port;
    nf_mac mac;
};

NF_TABLE(array, config, uint32_t, struct settings, 1);
NF_TABLE(hash, mappings, struct endpoint, struct outside_port, 65536);
NF_TABLE(hash, reverse, struct outside_key, struct host, 65536);

struct ports {
    nf_be16 source;
    nf_be16 destination;
};

static inline nf_be16 patch(nf_be16 csum, nf_be32 from_address, nf_be32 to_address,
                            nf_be16 from_port, nf_be16 to_port)
{
    csum = nf_csum_replace32(csum, from_address, to_address);
    return nf_csum_replace16(csum, from_port, to_port);
}

/* Finds or makes the port outside of a host inside; 0 if none is free. */
static inline nf_be16 outside_port_of(struct endpoint from, nf_mac mac)
{
    struct outside_port mapping;
    if (nf_lookup(&mappings, from, &mapping))
        return mapping.port;
    uint32_t start = nf_hash(1, from);
    for (uint32_t i = 0; i < TRIES; i++) {
        struct outside_key key = {0};
        key.port = nf_htons(FIRST_PORT + (start + i) % PORTS);
        key.protocol = from.protocol;
        if (nf_contains(&reverse, key))
            continue;
        struct host host = {from.address, from.port, mac};
        mapping.port = key.port;
        if (!nf_update(&reverse, key, host))
            return 0;
        if (!nf_update(&mappings, from, mapping)) {
            nf_delete(&reverse, key);
            return 0;
        }
        return key.port;
    }
    return 0;
}

void net_recv(nf_pkt pkt)
{
    struct nf_eth eth;
    struct nf_ipv4 ip;

    if (!nf_extract(pkt, &eth)) {
        nf_drop(pkt, "shorter than an Ethernet header");
        return;
    }
    if (eth.type != nf_htons(NF_ETH_IPV4)) {
        nf_reset(pkt);
        nf_pass(pkt);
        return;
    }
    if (!nf_extract(pkt, &ip)) {
        nf_drop(pkt, "shorter than an IPv4 header");
        return;
    }
    if (ip.ihl != 5 || (ip.frag & nf_htons(NF_IPV4_MORE | NF_IPV4_OFFSET)) != 0) {
        nf_drop(pkt, "options or fragment");
        return;
    }
    if (ip.ttl <= 1) {
        nf_drop(pkt, "time to live exceeded");
        return;
    }

    struct settings settings;
    nf_lookup(&config, 0, &settings);
    bool outward = nf_port(pkt) == INSIDE;
    if (!outward && ip.dst != settings.address) {
        nf_drop(pkt, "not for the address outside");
        return;
    }

    struct nf_tcp tcp;
    struct nf_udp udp;
    struct ports ports;
    if (ip.protocol == NF_IP_TCP) {
        if (!nf_extract(pkt, &tcp)) {
            nf_drop(pkt, "truncated");
            return;
        }
        ports.source = tcp.sport;
        ports.destination = tcp.dport;
    } else if (ip.protocol == NF_IP_UDP) {
        if (!nf_extract(pkt, &udp)) {
            nf_drop(pkt, "truncated");
            return;
        }
        ports.source = udp.sport;
        ports.destination = udp.dport;
    } else {
        nf_drop(pkt, "neither TCP nor UDP");
        return;
    }

    nf_be32 old_address, new_address;
    nf_be16 old_port, new_port;
    if (outward) {
        struct endpoint from = {0};
        from.address = ip.src;
        from.port = ports.source;
        from.protocol = ip.protocol;
        old_address = ip.src;
        old_port = ports.source;
        new_address = settings.address;
        new_port = outside_port_of(from, eth.src);
        if (new_port == 0) {
            nf_drop(pkt, "no free port");
            return;
        }
        ip.src = new_address;
        ports.source = new_port;
        eth.src = settings.outside_mac;
        eth.dst = settings.gateway;
    } else {
        struct outside_key key = {0};
        key.port = ports.destination;
        key.protocol = ip.protocol;
        struct host host;
        if (!nf_lookup(&reverse, key, &host)) {
            nf_drop(pkt, "no mapping");
            return;
        }
        old_address = ip.dst;
        old_port = ports.destination;
        new_address = host.address;
        new_port = host.port;
        ip.dst = new_address;
        ports.destination = new_port;
        eth.src = settings.inside_mac;
        eth.dst = host.mac;
    }
    ip.ttl--;
    ip.csum = nf_csum_replace32(ip.csum, old_address, new_address);
    ip.csum = nf_csum_replace16(ip.csum, NF_HTONS(0x0100), 0);

    if (ip.protocol == NF_IP_TCP) {
        tcp.sport = ports.source;
        tcp.dport = ports.destination;
        tcp.csum = patch(tcp.csum, old_address, new_address, old_port, new_port);
        nf_emit(pkt, &eth);
        nf_emit(pkt, &ip);
        nf_emit(pkt, &tcp);
        nf_send(pkt, outward ? OUTSIDE : INSIDE);
    } else {
        udp.sport = ports.source;
        udp.dport = ports.destination;
        /* A UDP checksum of zero means that there is none. */
        if (udp.csum != 0) {
            udp.csum = patch(udp.csum, old_address, new_address, old_port, new_port);
            if (udp.csum == 0)
                udp.csum = 0xffff;
        }
        nf_emit(pkt, &eth);
        nf_emit(pkt, &ip);
        nf_emit(pkt, &udp);
        nf_send(pkt, outward ? OUTSIDE : INSIDE);
    }
}
