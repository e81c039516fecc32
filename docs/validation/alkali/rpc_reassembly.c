/* SPDX-License-Identifier: Apache-2.0 OR MIT
 * Alkali's fourth application: segments of RPC messages are put together on the NIC; a whole
 * message goes to the host.
 */
#include <nicforge.h>

NF_PORTS(1);

#define MAX_MESSAGE 1024

struct NF_PACKED rpc {
    nf_be32 channel;
    nf_be32 seq;
    nf_be32 segment_bytes;
    nf_be32 total_bytes;
};

struct channel {
    uint32_t missing;
    uint32_t next_seq;
};

NF_BUF_TABLE(hash, channels, uint32_t, struct channel, 128, MAX_MESSAGE);

void net_recv(nf_pkt pkt)
{
    struct nf_eth eth;
    struct nf_ipv4 ip;
    struct nf_udp udp;
    struct rpc rpc;
    if (!nf_extract(pkt, &eth) || !nf_extract(pkt, &ip) || !nf_extract(pkt, &udp) ||
        !nf_extract(pkt, &rpc)) {
        nf_drop(pkt, "short");
        return;
    }
    uint32_t id = nf_ntohl(rpc.channel);
    uint32_t segment = nf_ntohl(rpc.segment_bytes);
    struct channel channel;
    nf_lookup(&channels, id, &channel);
    if (channel.next_seq + 1 != nf_ntohl(rpc.seq)) {
        nf_drop(pkt, "out of order");
        return;
    }
    bool starts = channel.missing == 0;
    if (starts)
        channel.missing = nf_ntohl(rpc.total_bytes);
    if (segment > channel.missing) {
        nf_drop(pkt, "too long");
        return;
    }
    channel.next_seq += 1;
    channel.missing -= segment;
    nf_update(&channels, id, channel);
    if (starts)
        nf_buf_clear(&channels, id);
    nf_buf_append_pkt(&channels, id, pkt, segment);
    if (NF_LIKELY(0.25, channel.missing == 0))
        nf_buf_to_host(&channels, id);
    nf_drop(pkt, "taken");
}
