/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * rpc_reassembly by hand: segments are copied once, straight into the mbuf in which the whole
 * message goes to the host. A channel keeps such an mbuf while a message is incomplete.
 */
#include <rte_hash.h>
#include <rte_hash_crc.h>
#include <rte_ip.h>
#include <rte_udp.h>

#define DATA_ROOM (RTE_PKTMBUF_HEADROOM + 8192)
#include "common.h"

#define RPC_PORT 7000
#define MAX_MESSAGE 8192
#define CHANNELS 1024

struct rpc {
    rte_be32_t channel;
    rte_be32_t seq;
    rte_be32_t segment_bytes;
    rte_be32_t total_bytes;
} __rte_packed;

struct channel {
    uint32_t missing;
    uint32_t next_seq;
    uint32_t messages;
    struct rte_mbuf *message;
};

static struct rte_hash *channels;
static struct channel channel_of[2 * CHANNELS];
static uint32_t known;

static bool prepare(void)
{
    struct rte_hash_parameters parameters = {.name = "channels",
                                             .entries = CHANNELS,
                                             .key_len = 4,
                                             .hash_func = rte_hash_crc,
                                             .socket_id = 0};
    channels = rte_hash_create(&parameters);
    return channels != NULL;
}

/* The state of a channel whose first segment this is; null if there are too many. */
static __rte_noinline struct channel *open_channel(uint32_t id)
{
    int at = known < CHANNELS ? rte_hash_add_key(channels, &id) : -1;
    if (at < 0)
        return NULL;
    known++;
    channel_of[at] = (struct channel){0};
    return &channel_of[at];
}

static inline int forward(struct rte_mbuf *m, unsigned port)
{
    (void)port;
    uint32_t length = rte_pktmbuf_data_len(m);
    const struct rte_ether_hdr *eth = rte_pktmbuf_mtod(m, struct rte_ether_hdr *);
    const struct rte_ipv4_hdr *ip = (const void *)(eth + 1);
    const struct rte_udp_hdr *udp = (const void *)(ip + 1);
    const struct rpc *rpc = (const void *)(udp + 1);
    if (length < sizeof(*eth) + sizeof(*ip) + sizeof(*udp) ||
        eth->ether_type != rte_cpu_to_be_16(RTE_ETHER_TYPE_IPV4) || (ip->version_ihl & 15) != 5 ||
        (ip->fragment_offset & rte_cpu_to_be_16(0x3fff)) || ip->next_proto_id != IPPROTO_UDP ||
        udp->dst_port != rte_cpu_to_be_16(RPC_PORT))
        return STACK;
    const uint32_t headers = sizeof(*eth) + sizeof(*ip) + sizeof(*udp) + sizeof(*rpc);
    if (length < headers)
        return DROP;
    uint32_t id = rte_be_to_cpu_32(rpc->channel), seq = rte_be_to_cpu_32(rpc->seq);
    uint32_t segment = rte_be_to_cpu_32(rpc->segment_bytes),
             total = rte_be_to_cpu_32(rpc->total_bytes);
    if (!segment || segment > MAX_MESSAGE || total > MAX_MESSAGE || length - headers < segment ||
        rte_be_to_cpu_16(udp->dgram_len) != sizeof(*udp) + sizeof(*rpc) + segment)
        return DROP;
    int at = rte_hash_lookup(channels, &id);
    struct channel *channel = at >= 0 ? &channel_of[at] : NULL;
    if (seq != (channel ? channel->next_seq : 0))
        return DROP;
    uint32_t missing = channel && channel->missing ? channel->missing : total;
    if (segment > missing)
        return DROP;
    if (!channel && !(channel = open_channel(id)))
        return DROP;
    if (!channel->message) {
        channel->message = rte_pktmbuf_alloc(m->pool);
        if (!channel->message)
            return DROP;
    }
    channel->next_seq++;
    channel->missing = missing - segment;
    memcpy(rte_pktmbuf_append(channel->message, segment), rpc + 1, segment);
    if (!channel->missing) {
        channel->messages++;
        to_host(channel->message);
        channel->message = NULL;
    }
    return DROP;
}

int main(int argc, char **argv) { return serve(argc, argv, prepare, forward); }
