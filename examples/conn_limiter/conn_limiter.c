/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * conn_limiter: at most LIMIT open TCP connections per source address, from their SYN to the first
 * FIN or RST of either side. Port 0 faces the clients, port 1 the servers; all else passes.
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

NF_TABLE(hash, sources, nf_be32, struct source, 1024);
NF_TABLE(lru, flows, struct nf_flow, struct flow_state, 65536);

void net_recv(nf_pkt pkt)
{
    struct nf_eth eth;
    struct nf_ipv4 ip;
    struct nf_tcp tcp;
    bool from_client = nf_port(pkt) == CLIENTS;
    uint32_t out = from_client ? SERVERS : CLIENTS;

    if (!nf_extract(pkt, &eth)) {
        nf_drop(pkt, "shorter than an Ethernet header");
        return;
    }
    if (eth.type != nf_htons(NF_ETH_IPV4)) {
        nf_reset(pkt);
        nf_send(pkt, out);
        return;
    }
    if (!nf_extract(pkt, &ip)) {
        nf_drop(pkt, "shorter than an IPv4 header");
        return;
    }
    /* Of a fragmented segment only the first fragment has the TCP header. */
    if (ip.protocol != NF_IP_TCP || (ip.frag & nf_htons(NF_IPV4_OFFSET)) != 0) {
        nf_reset(pkt);
        nf_send(pkt, out);
        return;
    }
    if (ip.ihl < 5 || !nf_strip(pkt, (uint32_t)(ip.ihl - 5) * 4) || !nf_extract(pkt, &tcp)) {
        nf_drop(pkt, "no whole TCP header");
        return;
    }

    /* The flow as the client sends it, whichever way this segment goes. */
    struct nf_flow flow = {0};
    flow.src = from_client ? ip.src : ip.dst;
    flow.dst = from_client ? ip.dst : ip.src;
    flow.sport = from_client ? tcp.sport : tcp.dport;
    flow.dport = from_client ? tcp.dport : tcp.sport;
    flow.protocol = ip.protocol;
    struct flow_state state;
    nf_lookup(&flows, flow, &state);
    bool opens = from_client && (tcp.flags & (NF_TCP_SYN | NF_TCP_ACK)) == NF_TCP_SYN;
    bool closes = (tcp.flags & (NF_TCP_FIN | NF_TCP_RST)) != 0;

    if (opens && !state.open) {
        struct source source;
        nf_lookup(&sources, flow.src, &source);
        if (source.open >= LIMIT) {
            source.refused++;
            nf_update(&sources, flow.src, source);
            nf_drop(pkt, "too many open connections");
            return;
        }
        source.open++;
        if (!nf_update(&sources, flow.src, source)) {
            nf_drop(pkt, "too many sources");
            return;
        }
        state.open = 1;
        nf_update(&flows, flow, state);
    } else if (closes && state.open) {
        struct source source;
        if (nf_lookup(&sources, flow.src, &source) && source.open > 0) {
            source.open--;
            nf_update(&sources, flow.src, source);
        }
        nf_delete(&flows, flow);
    }
    nf_reset(pkt);
    nf_send(pkt, out);
}
