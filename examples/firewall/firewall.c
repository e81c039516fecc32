/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * firewall: a stateful firewall. Hosts inside (port 0) may talk to anyone; from outside (port 1)
 * come only answers, and what the rules allow: a source prefix for a service (protocol and port).
 */
#include <nicforge.h>

NF_PORTS(2);

#define INSIDE 0
#define OUTSIDE 1
#define TCP_IDLE_NS (300ull * 1000000000ull)
#define UDP_IDLE_NS (30ull * 1000000000ull)

struct session {
    uint64_t last_seen; /* ns */
    uint32_t packets;
};

struct zone {
    uint32_t id;
};

struct service {
    uint32_t zone;
    nf_be16 port;
    uint8_t protocol;
};

struct permission {
    uint8_t allow;
};

/* Flows as the host inside sends them. */
NF_TABLE(lru, sessions, struct nf_flow, struct session, 65536);
/* Which zone a source address outside belongs to; zone 0 is everybody else. */
NF_TABLE(lpm, zones, nf_be32, struct zone, 1024);
NF_TABLE(hash, rules, struct service, struct permission, 1024);

static inline bool fresh(struct session session, uint8_t protocol)
{
    uint64_t idle = protocol == NF_IP_TCP ? TCP_IDLE_NS : UDP_IDLE_NS;
    return nf_now() - session.last_seen <= idle;
}

void net_recv(nf_pkt pkt)
{
    struct nf_eth eth;
    struct nf_ipv4 ip;
    /* Source and destination port come first in TCP and in UDP. */
    struct ports {
        nf_be16 source;
        nf_be16 destination;
    } ports;

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
    if (ip.version != 4 || ip.ihl < 5) {
        nf_drop(pkt, "bad IPv4 header");
        return;
    }
    if ((ip.frag & nf_htons(NF_IPV4_MORE | NF_IPV4_OFFSET)) != 0) {
        nf_drop(pkt, "fragment");
        return;
    }
    if (ip.protocol != NF_IP_TCP && ip.protocol != NF_IP_UDP) {
        nf_drop(pkt, "neither TCP nor UDP");
        return;
    }
    if (!nf_strip(pkt, (uint32_t)(ip.ihl - 5) * 4) || !nf_extract(pkt, &ports)) {
        nf_drop(pkt, "truncated");
        return;
    }

    bool outward = nf_port(pkt) == INSIDE;
    struct nf_flow flow = {0};
    flow.src = outward ? ip.src : ip.dst;
    flow.dst = outward ? ip.dst : ip.src;
    flow.sport = outward ? ports.source : ports.destination;
    flow.dport = outward ? ports.destination : ports.source;
    flow.protocol = ip.protocol;

    struct session session;
    bool known = nf_lookup(&sessions, flow, &session);
    if (known && !fresh(session, ip.protocol)) {
        known = false;
        session.packets = 0;
    }
    if (!outward && !known) {
        struct zone zone;
        nf_lookup(&zones, ip.src, &zone);
        struct service service = {0};
        service.zone = zone.id;
        service.port = ports.destination;
        service.protocol = ip.protocol;
        struct permission permission;
        if (!nf_lookup(&rules, service, &permission) || !permission.allow) {
            nf_drop(pkt, "not allowed from outside");
            return;
        }
    }
    session.last_seen = nf_now();
    session.packets++;
    nf_update(&sessions, flow, session);

    nf_reset(pkt);
    nf_send(pkt, outward ? OUTSIDE : INSIDE);
}
