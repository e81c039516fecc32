/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * rpc_reassembly: puts the segments of RPC messages together on the NIC and hands whole messages to
 * the host. A message is a run of UDP datagrams of one channel with consecutive sequence numbers;
 * segments out of order are dropped, the sender repeats them.
 */
#include <nicforge.h>

NF_PORTS(1);

#define RPC_PORT 7000
#define MAX_MESSAGE 8192

struct NF_PACKED rpc {
    nf_be32 channel;
    nf_be32 seq;
    nf_be32 segment_bytes;
    nf_be32 total_bytes;
};

struct channel {
    uint32_t missing; /* bytes of the current message that have not come yet; 0: between messages */
    uint32_t next_seq;
    uint32_t messages;
};

NF_BUF_TABLE(hash, channels, uint32_t, struct channel, 1024, MAX_MESSAGE);

void net_recv(nf_pkt pkt)
{
    struct nf_eth eth;
    struct nf_ipv4 ip;
    struct nf_udp udp;
    struct rpc rpc;

    if (!nf_extract(pkt, &eth) || eth.type != nf_htons(NF_ETH_IPV4) || !nf_extract(pkt, &ip) ||
        ip.ihl != 5 || (ip.frag & nf_htons(NF_IPV4_MORE | NF_IPV4_OFFSET)) != 0 ||
        ip.protocol != NF_IP_UDP || !nf_extract(pkt, &udp) || udp.dport != nf_htons(RPC_PORT)) {
        nf_reset(pkt);
        nf_pass(pkt);
        return;
    }
    if (!nf_extract(pkt, &rpc)) {
        nf_drop(pkt, "shorter than an RPC header");
        return;
    }
    uint32_t id = nf_ntohl(rpc.channel);
    uint32_t seq = nf_ntohl(rpc.seq);
    uint32_t segment = nf_ntohl(rpc.segment_bytes);
    uint32_t total = nf_ntohl(rpc.total_bytes);
    /* Behind the datagram may be Ethernet padding. */
    uint32_t headers = sizeof(struct nf_udp) + sizeof(struct rpc);
    uint32_t datagram = nf_ntohs(udp.length);
    if (segment == 0 || segment > MAX_MESSAGE || datagram != headers + segment ||
        total > MAX_MESSAGE || !nf_trim(pkt, segment)) {
        nf_drop(pkt, "bad length");
        return;
    }

    struct channel channel;
    nf_lookup(&channels, id, &channel);
    if (seq != channel.next_seq) {
        nf_drop(pkt, "out of order");
        return;
    }
    bool starts = channel.missing == 0;
    if (starts)
        channel.missing = total;
    if (segment > channel.missing) {
        nf_drop(pkt, "more than the message has left");
        return;
    }
    channel.next_seq++;
    channel.missing -= segment;
    if (channel.missing == 0)
        channel.messages++;
    if (!nf_update(&channels, id, channel)) {
        nf_drop(pkt, "too many channels");
        return;
    }
    if (starts)
        nf_buf_clear(&channels, id);
    nf_buf_append_pkt(&channels, id, pkt, segment);
    if (channel.missing == 0)
        nf_buf_to_host(&channels, id);
    nf_drop(pkt, "segment taken");
}
