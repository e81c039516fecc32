/* SPDX-License-Identifier: Apache-2.0 OR MIT
 * Alkali's third application: firewall, flow and connection tracker, load balancer. Six tables:
 * three read by flow, one updated by flow, one by source address, one by source port. */
#include "headers.h"

NF_PORTS(1);

struct rule {
    uint32_t new_src;
    uint32_t new_dst;
    uint32_t priority;
    uint32_t timeout;
    uint32_t allow;
};

struct cookies {
    uint32_t first;
    uint32_t second;
};

struct errors {
    uint32_t drop;
    uint32_t error;
    uint32_t bytes;
};

struct connection {
    uint32_t src_count;
    uint32_t dst_count;
    uint32_t sync;
};

struct balance {
    uint64_t mac_src;
    uint64_t mac_dst;
    uint32_t ip_src;
    uint32_t ip_dst;
    uint16_t port_src;
    uint16_t port_dst;
    uint32_t allocated;
    uint64_t hash;
};

struct NF_PACKED words {
    uint32_t word[7];
};

struct NF_PACKED trailer {
    uint64_t raw1;
    uint64_t raw2;
    uint32_t raw3;
};

NF_TABLE(hash, firewall_ip, uint32_t, struct rule, 64);
NF_TABLE(hash, firewall_port, uint32_t, struct rule, 64);
NF_TABLE(hash, priorities, uint32_t, struct cookies, 64);
NF_TABLE(hash, flow_errors, uint32_t, struct errors, 64);
NF_TABLE(hash, connections, uint32_t, struct connection, 64);
NF_TABLE(hash, balancer, uint16_t, struct balance, 64);

void net_recv(nf_pkt pkt)
{
    struct nf_eth eth;
    struct ipv4_options ip;
    struct nf_tcp tcp;
    if (!nf_extract(pkt, &eth) || !nf_extract(pkt, &ip) || !nf_extract(pkt, &tcp)) {
        nf_drop(pkt, "short");
        return;
    }
    uint32_t src = nf_ntohl(ip.src);
    uint32_t seq = nf_ntohl(tcp.seq);
    uint32_t sum = nf_ntohs(tcp.csum);
    uint16_t sport = nf_ntohs(tcp.sport);
    uint32_t flow = src + nf_ntohl(ip.dst) + sport + nf_ntohs(tcp.dport);

    /* Firewall. */
    struct rule by_ip;
    struct rule by_port;
    struct cookies cookies;
    nf_lookup(&firewall_ip, flow, &by_ip);
    nf_lookup(&firewall_port, flow, &by_port);
    nf_lookup(&priorities, flow, &cookies);
    uint32_t drop = by_ip.allow + by_port.allow;
    struct words verdict = {
        {flow, drop, cookies.first + cookies.second, by_ip.timeout + by_port.timeout, 0, 0, 0},
    };

    /* Tracker. */
    struct errors errors;
    nf_lookup(&flow_errors, flow, &errors);
    errors.drop += 1 - (drop & 1);
    errors.bytes += 256 + seq + sum;
    nf_update(&flow_errors, flow, errors);
    uint32_t signature = errors.drop + errors.bytes + sum;
    struct connection connection;
    nf_lookup(&connections, src, &connection);
    connection.src_count -= drop & 1;
    nf_update(&connections, src, connection);
    struct words tracked = {{connection.src_count, connection.sync + signature, 0, 0, 0, 0, 0}};

    /* Load balancer. */
    struct balance server;
    nf_lookup(&balancer, sport, &server);
    server.allocated = 1;
    server.mac_src += flow;
    server.mac_dst += flow;
    server.ip_src = 0x08080808u + flow;
    server.ip_dst = 0x08080807u + flow;
    server.port_src = (uint16_t)(50u + flow);
    server.port_dst = (uint16_t)(60u + flow);
    server.hash = 0x08080808ull + 0x08080807ull + 110ull + flow;
    nf_update(&balancer, sport, server);
    struct trailer trailer = {
        (uint64_t)server.ip_src + server.ip_dst + server.port_src + server.port_dst, 0, 0};

    nf_emit(pkt, &verdict);
    nf_emit(pkt, &tracked);
    nf_emit(pkt, &trailer);
    nf_send(pkt, 0);
}
