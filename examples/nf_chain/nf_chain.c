/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * nf_chain: a stateful firewall, a connection limiter and a load balancer, one behind the other.
 *
 * Clients are on port 0, servers on port 1. A client may open TCP connections to the services of
 * the table `services`, at most MAX_OPEN at a time; connections go to the service's servers in
 * turn, which answer with the service's address (direct server return), so only the Ethernet
 * address is rewritten.
 */
#include <nicforge.h>

NF_PORTS(2);

#define CLIENTS 0
#define SERVERS 1
#define MAX_OPEN 16
#define IDLE_NS (60ull * 1000000000ull)

struct verdict {
    uint8_t deny;
};

struct connection {
    uint64_t last_seen; /* ns */
    uint8_t fin_seen;
};

struct counters {
    uint32_t packets;
    uint64_t bytes;
};

struct server {
    nf_mac mac;
};

struct source {
    uint32_t open;
};

struct turn {
    uint16_t next; /* index of the server that the next connection goes to */
};

struct service {
    nf_mac gateway; /* our own address towards the servers */
    uint16_t servers;
    nf_mac server[8];
};

/* By flow, as the client sends it. */
NF_TABLE(hash, policy, struct nf_flow, struct verdict, 1024);
NF_TABLE(lru, connections, struct nf_flow, struct connection, 16384);
NF_TABLE(hash, counts, struct nf_flow, struct counters, 16384);
NF_TABLE(lru, assigned, struct nf_flow, struct server, 16384);
/* By address. */
NF_TABLE(hash, sources, nf_be32, struct source, 4096);
NF_TABLE(hash, services, nf_be32, struct service, 64);
NF_TABLE(hash, turns, nf_be32, struct turn, 64);

void net_recv(nf_pkt pkt)
{
    struct nf_eth eth;
    struct nf_ipv4 ip;
    struct nf_tcp tcp;

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
    if (ip.protocol != NF_IP_TCP || ip.ihl != 5 ||
        (ip.frag & nf_htons(NF_IPV4_MORE | NF_IPV4_OFFSET)) != 0) {
        nf_drop(pkt, "not a plain TCP segment");
        return;
    }
    if (!nf_extract(pkt, &tcp)) {
        nf_drop(pkt, "shorter than a TCP header");
        return;
    }

    /* The flow as the client sends it, whichever way this segment goes. */
    bool from_client = nf_port(pkt) == CLIENTS;
    struct nf_flow flow = {0};
    flow.src = from_client ? ip.src : ip.dst;
    flow.dst = from_client ? ip.dst : ip.src;
    flow.sport = from_client ? tcp.sport : tcp.dport;
    flow.dport = from_client ? tcp.dport : tcp.sport;
    flow.protocol = ip.protocol;

    /* Firewall. */
    struct verdict verdict;
    if (nf_lookup(&policy, flow, &verdict) && verdict.deny) {
        nf_drop(pkt, "denied by policy");
        return;
    }
    struct connection connection;
    bool found = nf_lookup(&connections, flow, &connection);
    bool fresh = found && nf_now() - connection.last_seen <= IDLE_NS;
    bool opens = from_client && (tcp.flags & (NF_TCP_SYN | NF_TCP_ACK)) == NF_TCP_SYN;
    if (!fresh && !opens) {
        nf_drop(pkt, "no such connection");
        return;
    }

    /* Limiter: counts connections from their SYN to the first FIN or RST. One that went idle is
     * still counted. */
    bool closes = (tcp.flags & (NF_TCP_FIN | NF_TCP_RST)) != 0;
    bool counted = found && !connection.fin_seen;
    struct service service;
    if (opens && !counted) {
        if (!nf_lookup(&services, flow.dst, &service) || service.servers == 0) {
            nf_drop(pkt, "no such service");
            return;
        }
        struct source source;
        nf_lookup(&sources, flow.src, &source);
        if (source.open >= MAX_OPEN) {
            nf_drop(pkt, "too many open connections");
            return;
        }
        source.open = source.open + 1;
        nf_update(&sources, flow.src, source);
        connection.fin_seen = 0;
    } else if (closes && counted) {
        struct source source;
        if (nf_lookup(&sources, flow.src, &source) && source.open > 0) {
            source.open = source.open - 1;
            nf_update(&sources, flow.src, source);
        }
        connection.fin_seen = 1;
    }
    connection.last_seen = nf_now();
    nf_update(&connections, flow, connection);
    nf_add(&counts, flow, packets, 1);
    nf_add(&counts, flow, bytes, nf_ntohs(ip.length));

    if (!from_client) {
        nf_reset(pkt);
        nf_send(pkt, CLIENTS);
        return;
    }

    /* Load balancer. */
    struct server server;
    if (!nf_lookup(&assigned, flow, &server)) {
        if (!nf_lookup(&services, flow.dst, &service) || service.servers == 0) {
            nf_drop(pkt, "no such service");
            return;
        }
        struct turn turn;
        nf_lookup(&turns, flow.dst, &turn);
        if (turn.next >= service.servers)
            turn.next = 0;
        server.mac = service.server[turn.next & 7];
        turn.next = turn.next + 1;
        nf_update(&turns, flow.dst, turn);
        nf_update(&assigned, flow, server);
    }
    eth.dst = server.mac;
    nf_emit(pkt, &eth);
    nf_emit(pkt, &ip);
    nf_emit(pkt, &tcp);
    nf_send(pkt, SERVERS);
}
