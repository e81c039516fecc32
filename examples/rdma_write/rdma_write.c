/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * rdma_write: receives writes to host memory in the manner of RoCEv2 (InfiniBand Architecture
 * Specification, volume 1, 9.2 to 9.4 and annex A17), without its invariant CRC. Regions of memory
 * come from the control plane. Packets of a queue pair have to come in order, and each is answered.
 * The last one of a write rings the doorbell: a message to the host side.
 */
#include <nicforge.h>

#define ROCE_PORT 4791
#define PAIRS 256
/* Opcodes, and syndromes of answers. */
enum { WRITE_FIRST = 6, WRITE_MIDDLE = 7, WRITE_LAST = 8, WRITE_ONLY = 10, ACKNOWLEDGE = 17 };
enum { ACK = 0x1f, NAK_SEQUENCE = 0x60, NAK_ACCESS = 0x62 };

struct bth { /* base transport header; pair and psn have 24 bits */
    uint8_t opcode, flags;
    nf_be16 partition;
    nf_be32 pair, psn;
};

struct reth { /* what the first packet of a write says */
    nf_be32 address_high, address_low, rkey, length;
};

struct answer {
    struct nf_eth eth;
    struct nf_ipv4 ip;
    struct nf_udp udp;
    struct bth bth;
    nf_be32 syndrome; /* 8 bits, then the number of writes that are done */
} __attribute__((packed));

struct region {
    uint64_t base, length;
};

struct pair {
    uint64_t address;
    uint32_t left, psn, done;
};

struct doorbell {
    uint32_t pair, done;
};

NF_TABLE(hash, regions, uint32_t, struct region, 64); /* by remote key */
NF_TABLE(array, pairs, uint32_t, struct pair, PAIRS);

/* Whether the write that begins here is into a region; then the pair knows where. */
static inline bool begin(nf_pkt pkt, struct pair *pair)
{
    struct reth reth;
    struct region region;
    if (!nf_extract(pkt, &reth) || !nf_lookup(&regions, nf_ntohl(reth.rkey), &region))
        return false;
    pair->address = (uint64_t)nf_ntohl(reth.address_high) << 32 | nf_ntohl(reth.address_low);
    pair->left = nf_ntohl(reth.length);
    uint64_t off = pair->address - region.base;
    return off <= region.length && pair->left <= region.length - off;
}

/* Takes a packet in order: its payload goes to the host. Gives the syndrome of the answer. */
static inline uint32_t take(nf_pkt pkt, uint32_t number, struct pair *pair, struct bth bth)
{
    if (bth.opcode == WRITE_FIRST || bth.opcode == WRITE_ONLY) {
        if (pair->left != 0 || !begin(pkt, pair)) {
            pair->left = 0;
            return NAK_ACCESS;
        }
    }
    uint32_t bytes = nf_len(pkt);
    bool last = bth.opcode == WRITE_LAST || bth.opcode == WRITE_ONLY;
    if (bytes > pair->left || (last && bytes != pair->left)) {
        pair->left = 0;
        return NAK_ACCESS;
    }
    nf_dma_write(pkt, pair->address, bytes);
    pair->address += bytes;
    pair->left -= bytes;
    pair->psn = (pair->psn + 1) & 0xffffff;
    if (last) {
        pair->done = (pair->done + 1) & 0xffffff;
        nf_host_msg(((struct doorbell){number, pair->done}));
    }
    return ACK;
}

void net_recv(nf_pkt pkt)
{
    struct answer a = {};
    if (!nf_extract(pkt, &a.eth) || a.eth.type != NF_HTONS(NF_ETH_IPV4) ||
        !nf_extract(pkt, &a.ip) || a.ip.ihl != 5 || a.ip.protocol != NF_IP_UDP ||
        !nf_extract(pkt, &a.udp) || a.udp.dport != NF_HTONS(ROCE_PORT)) {
        nf_reset(pkt);
        nf_pass(pkt);
        return;
    }
    bool whole = nf_trim(pkt, nf_ntohs(a.udp.length) - 8) && nf_extract(pkt, &a.bth);
    uint32_t number = nf_ntohl(a.bth.pair) & 0xffffff;
    if (!whole || number >= PAIRS || a.bth.opcode < WRITE_FIRST || a.bth.opcode > WRITE_ONLY ||
        a.bth.opcode == 9) {
        nf_drop(pkt, "no write");
        return;
    }
    struct pair pair;
    nf_lookup(&pairs, number, &pair);
    uint32_t syndrome = NAK_SEQUENCE;
    if ((nf_ntohl(a.bth.psn) & 0xffffff) == pair.psn) {
        syndrome = take(pkt, number, &pair, a.bth);
        nf_update(&pairs, number, pair);
    }
    a.bth.opcode = ACKNOWLEDGE;
    a.syndrome = nf_htonl(syndrome << 24 | pair.done);
    nf_mac mac = a.eth.dst;
    a.eth.dst = a.eth.src;
    a.eth.src = mac;
    nf_be32 address = a.ip.dst;
    a.ip.dst = a.ip.src;
    a.ip.src = address;
    a.ip.length = NF_HTONS(sizeof(a) - sizeof(a.eth));
    a.ip.csum = 0;
    a.ip.csum = nf_csum_fold(nf_csum_add(0, a.ip));
    a.udp.length = NF_HTONS(sizeof(a) - sizeof(a.eth) - sizeof(a.ip));
    a.udp.csum = 0;
    nf_trim(pkt, 0);
    nf_emit(pkt, &a);
    nf_send(pkt, nf_port(pkt));
}
