/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * conn_limiter: at most LIMIT open TCP connections per source address. Port 0 faces the clients, port 1 the servers.
 */
#include <nicforge.h>

NF_PORTS(2);

#define CLIENTS 0
#define SERVERS 1
#define LIMIT 8

struct source {
    uint32_t open;
    uint32_t refused;
};

struct flow_state {
    uint8_t open;
};

NF_TABLE(hash, sources, nf_be32, struct source, 16384);
NF_TABLE(lru, flows, struct nf_flow, struct flow_state, 65536);

void net_recv(nf_pkt pkt)
{
    struct nf_eth eth;
    struct nf_ipv4 ip;
    struct nf_tcp tcp;

    if (nf_port(pkt) != CLIENTS) {
        nf_send(pkt, CLIENTS);
        return;
    }
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
    if (ip.protocol != NF_IP_TCP || ip.ihl != 5) {
        nf_reset(pkt);
        nf_send(pkt, SERVERS);
        return;
    }
    if (!nf_extract(pkt, &tcp)) {
        nf_drop(pkt, "shorter than a TCP header");
        return;
    }

    struct nf_flow flow = {ip.src, ip.dst, tcp.sport, tcp.dport, ip.protocol};
    struct flow_state state;
    nf_lookup(&flows, flow, &state);
    bool opens = (tcp.flags & (NF_TCP_SYN | NF_TCP_ACK)) == NF_TCP_SYN;
    bool closes = (tcp.flags & (NF_TCP_FIN | NF_TCP_RST)) != 0;

    if (opens && !state.open) {
        struct source source;
        nf_lookup(&sources, ip.src, &source);
        if (source.open >= LIMIT) {
            source.refused++;
            nf_update(&sources, ip.src, source);
            nf_drop(pkt, "too many open connections");
            return;
        }
        source.open++;
        nf_update(&sources, ip.src, source);
        state.open = 1;
        nf_update(&flows, flow, state);
    } else if (closes && state.open) {
        struct source source;
        if (nf_lookup(&sources, ip.src, &source) && source.open > 0) {
            source.open--;
            nf_update(&sources, ip.src, source);
        }
        nf_delete(&flows, flow);
    }
    nf_reset(pkt);
    nf_send(pkt, SERVERS);
}
