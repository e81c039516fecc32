/* SPDX-License-Identifier: Apache-2.0 OR MIT
 * Alkali's second application: the receive path of a TCP offload after FlexTOE. Trims what was
 * received before and what is beyond the window, writes the payload to host memory, answers with an
 * acknowledgement. */
#include "headers.h"

NF_PORTS(1);

struct flow {
    uint32_t tx_next_seq;
    uint16_t flags;
    uint16_t dup_acks;
    uint32_t rx_length;
    uint32_t rx_available;
    uint32_t rx_next_seq;
    uint32_t rx_next_pos;
    uint32_t ooo_length;
    uint32_t ooo_start;
};

NF_TABLE(hash, flows, uint16_t, struct flow, 16);

void net_recv(nf_pkt pkt)
{
    struct nf_eth eth;
    struct ipv4_options ip;
    struct nf_tcp tcp;
    if (!nf_extract(pkt, &eth) || !nf_extract(pkt, &ip) || !nf_extract(pkt, &tcp)) {
        nf_drop(pkt, "short");
        return;
    }
    uint32_t length = (uint32_t)nf_ntohs(ip.length) + 14;
    uint32_t seq = nf_ntohl(tcp.seq);
    uint16_t id = nf_ntohs(tcp.dport);

    struct flow flow;
    nf_lookup(&flows, id, &flow);
    uint32_t trim_start = flow.rx_next_seq - seq;
    uint32_t rest = length - trim_start;
    uint32_t trim_end = rest < flow.rx_available ? 0 : rest - flow.rx_available;
    uint32_t payload = rest - trim_end;
    if (trim_start <= length && payload > 0) {
        nf_dma_write(pkt, flow.rx_next_pos, payload);
        flow.rx_available -= payload;
        flow.rx_next_seq += payload;
        flow.rx_next_pos += payload;
    }
    nf_update(&flows, id, flow);

    nf_mac mac = eth.dst;
    eth.dst = eth.src;
    eth.src = mac;
    nf_be32 address = ip.src;
    ip.src = ip.dst;
    ip.dst = address;
    ip.length = nf_htons(64);
    nf_be16 port = tcp.sport;
    tcp.sport = tcp.dport;
    tcp.dport = port;
    tcp.seq = nf_htonl(flow.tx_next_seq);
    tcp.ack = nf_htonl(flow.rx_next_seq);
    tcp.window = nf_htons((uint16_t)flow.rx_available);
    nf_emit(pkt, &eth);
    nf_emit(pkt, &ip);
    nf_emit(pkt, &tcp);
    nf_send(pkt, 0);
}
