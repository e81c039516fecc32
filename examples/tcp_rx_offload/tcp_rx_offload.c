/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * tcp_rx_offload: the receive path of an offloaded TCP, after FlexTOE (NSDI'22): header validation,
 * window trimming, one out-of-order interval, payload to the host's receive buffer, and the
 * acknowledgement. Connections are set up by the host, which fills the table `flows`; segments that
 * need it (SYN, FIN, RST, options) go to its stack. What the peer acknowledges and its window are
 * told to the host, which keeps what it sent.
 */
#include <nicforge.h>

NF_PORTS(1);

#define BUFFER_BYTES 65536u

struct flow {
    uint64_t buffer;    /* host address of the receive ring, BUFFER_BYTES long */
    uint32_t next_pos;  /* where in the ring the next byte goes */
    uint32_t available; /* bytes the ring has room for: the window */
    uint32_t next_seq;  /* next byte expected */
    uint32_t tx_seq;    /* our own sequence number, for acknowledgements */
    uint32_t ooo_start; /* out-of-order interval that is already in the ring */
    uint32_t ooo_len;
    uint32_t dup_acks;
};

struct received {
    uint32_t flow_port;
    uint32_t bytes;  /* in order, ready for the application */
    uint32_t acked;  /* acknowledgement number */
    uint32_t window; /* of the peer */
};

NF_TABLE(hash, flows, struct nf_flow, struct flow, 4096);

void net_recv(nf_pkt pkt)
{
    struct nf_eth eth;
    struct nf_ipv4 ip;
    struct nf_tcp tcp;

    if (!nf_extract(pkt, &eth) || eth.type != nf_htons(NF_ETH_IPV4) || !nf_extract(pkt, &ip) ||
        ip.version != 4 || ip.ihl != 5 ||
        (ip.frag & nf_htons(NF_IPV4_MORE | NF_IPV4_OFFSET)) != 0 || ip.protocol != NF_IP_TCP ||
        !nf_extract(pkt, &tcp)) {
        nf_reset(pkt);
        nf_pass(pkt);
        return;
    }
    if (nf_csum_add(0, ip) != 0xffff) {
        nf_drop(pkt, "bad IPv4 checksum");
        return;
    }
    struct nf_flow key = {0};
    key.src = ip.src;
    key.dst = ip.dst;
    key.sport = tcp.sport;
    key.dport = tcp.dport;
    key.protocol = ip.protocol;
    struct flow flow;
    bool ours = nf_lookup(&flows, key, &flow);
    if (!ours || tcp.offset != 5 || (tcp.flags & (NF_TCP_SYN | NF_TCP_FIN | NF_TCP_RST)) != 0) {
        nf_reset(pkt);
        nf_pass(pkt);
        return;
    }
    uint32_t length = nf_ntohs(ip.length);
    uint32_t headers = sizeof(struct nf_ipv4) + sizeof(struct nf_tcp);
    if (length < headers || length - headers > nf_len(pkt)) {
        nf_drop(pkt, "bad length");
        return;
    }
    uint32_t payload = length - headers;
    nf_trim(pkt, payload); /* Ethernet padding */
    struct nf_pseudo_ipv4 covered = {ip.src, ip.dst, 0, NF_IP_TCP,
                                     nf_htons(sizeof(struct nf_tcp) + payload)};
    if (nf_csum_payload(pkt, nf_csum_add(nf_csum_add(0, covered), tcp), payload) != 0xffff) {
        nf_drop(pkt, "bad TCP checksum");
        return;
    }
    struct received received = {nf_ntohs(tcp.dport), 0, nf_ntohl(tcp.ack), nf_ntohs(tcp.window)};
    if (payload == 0) {
        nf_host_msg(received);
        nf_drop(pkt, "pure acknowledgement");
        return;
    }

    /* Cut off what came before, and what the window has no room for. */
    uint32_t seq = nf_ntohl(tcp.seq);
    uint32_t behind = flow.next_seq - seq;
    bool acceptable = true;
    uint32_t ahead = 0;
    if ((int32_t)behind > 0) {
        if (behind >= payload)
            acceptable = false; /* all of it is old */
        else {
            nf_strip(pkt, behind);
            payload -= behind;
            seq = flow.next_seq;
        }
    } else {
        ahead = seq - flow.next_seq;
    }
    if (acceptable && ahead + payload > flow.available) {
        if (ahead >= flow.available)
            acceptable = false;
        else
            payload = flow.available - ahead;
    }

    uint32_t pos = (flow.next_pos + ahead) % BUFFER_BYTES;
    uint32_t delivered = 0;
    bool keep = false;
    if (acceptable) {
        if (ahead == 0) {
            keep = true;
            delivered = payload;
            /* Does this fill the hole before the out-of-order interval? */
            uint32_t reach = payload;
            if (flow.ooo_len != 0 && flow.ooo_start - flow.next_seq <= reach) {
                uint32_t end = flow.ooo_start + flow.ooo_len - flow.next_seq;
                if (end > reach)
                    delivered = end;
                flow.ooo_len = 0;
            }
            flow.next_seq += delivered;
            flow.next_pos = (flow.next_pos + delivered) % BUFFER_BYTES;
            flow.available -= delivered;
            flow.dup_acks = 0;
        } else {
            if (flow.ooo_len == 0) {
                flow.ooo_start = seq;
                flow.ooo_len = payload;
                keep = true;
            } else if (seq == flow.ooo_start + flow.ooo_len) {
                flow.ooo_len += payload;
                keep = true;
            } else if (seq + payload == flow.ooo_start) {
                flow.ooo_start = seq;
                flow.ooo_len += payload;
                keep = true;
            }
            /* Anything else would make a second interval: it is left for retransmission. */
            flow.dup_acks++;
        }
    } else {
        flow.dup_acks++;
    }
    if (keep) {
        /* The ring may end within the payload; the rest goes to its start. */
        uint32_t until_end = BUFFER_BYTES - pos;
        if (payload <= until_end) {
            nf_dma_write(pkt, flow.buffer + pos, payload);
        } else {
            nf_dma_write(pkt, flow.buffer + pos, until_end);
            nf_strip(pkt, until_end);
            nf_dma_write(pkt, flow.buffer, payload - until_end);
        }
    }
    nf_update(&flows, key, flow);
    received.bytes = delivered;
    nf_host_msg(received);

    /* The acknowledgement. */
    nf_trim(pkt, 0);
    nf_mac mac = eth.src;
    eth.src = eth.dst;
    eth.dst = mac;
    nf_be32 address = ip.src;
    ip.src = ip.dst;
    ip.dst = address;
    ip.tos = 0;
    ip.length = nf_htons(headers);
    ip.frag = NF_HTONS(0x4000); /* do not fragment */
    ip.ttl = 64;
    ip.csum = 0;
    ip.csum = nf_csum_fold(nf_csum_add(0, ip));
    nf_be16 port = tcp.sport;
    tcp.sport = tcp.dport;
    tcp.dport = port;
    tcp.ack = nf_htonl(flow.next_seq);
    tcp.seq = nf_htonl(flow.tx_seq);
    tcp.reserved = 0;
    tcp.flags = NF_TCP_ACK;
    tcp.window = nf_htons(flow.available > 65535 ? 65535 : flow.available);
    tcp.urgent = 0;
    tcp.csum = 0;
    struct nf_pseudo_ipv4 pseudo = {ip.src, ip.dst, 0, NF_IP_TCP, NF_HTONS(20)};
    tcp.csum = nf_csum_fold(nf_csum_add(nf_csum_add(0, pseudo), tcp));
    nf_emit(pkt, &eth);
    nf_emit(pkt, &ip);
    nf_emit(pkt, &tcp);
    nf_send(pkt, nf_port(pkt));
}
