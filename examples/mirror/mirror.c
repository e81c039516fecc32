/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * mirror: passes frames on between two ports, and sends a copy of one IPv4 packet in eight to a
 * collector behind port 1, wrapped in GRE as ERSPAN type I. Which ones, a hash of the packet's
 * header says (RFC 5475, 6.2), so that all NICs on a path choose the same packets.
 */
#include <nicforge.h>

NF_PORTS(2);

#define COLLECTOR 1
#define ONE_OF 8
#define GRE 47
#define ERSPAN 0x88be

struct gre {
    nf_be16 flags;
    nf_be16 protocol;
};

struct self {
    nf_be32 address, collector;
    nf_mac mac, next_hop;
};

/* What stays the same from hop to hop. */
struct identity {
    nf_be32 src, dst;
    nf_be16 id;
    uint8_t protocol;
};

NF_TABLE(array, config, uint32_t, struct self, 1);
NF_TABLE(array, mirrored, uint32_t, uint64_t, 1);

static inline void copy(nf_pkt pkt)
{
    struct self self;
    nf_lookup(&config, 0, &self);
    struct nf_eth eth = {self.next_hop, self.mac, NF_HTONS(NF_ETH_IPV4)};
    struct nf_ipv4 ip = {.version = 4, .ihl = 5, .ttl = 64, .protocol = GRE};
    ip.length = nf_htons(sizeof(struct nf_ipv4) + sizeof(struct gre) + nf_len(pkt));
    ip.src = self.address;
    ip.dst = self.collector;
    ip.csum = nf_csum_fold(nf_csum_add(0, ip));
    struct gre gre = {.protocol = NF_HTONS(ERSPAN)};
    nf_emit(pkt, &eth);
    nf_emit(pkt, &ip);
    nf_emit(pkt, &gre);
    nf_send(nf_clone(pkt), COLLECTOR);
    nf_add_value(&mirrored, 0, 1);
    nf_reset(pkt);
}

void net_recv(nf_pkt pkt)
{
    struct nf_eth eth;
    struct nf_ipv4 ip;
    bool chosen = false;
    if (nf_extract(pkt, &eth) && eth.type == NF_HTONS(NF_ETH_IPV4) && nf_extract(pkt, &ip)) {
        struct identity identity = {ip.src, ip.dst, ip.id, ip.protocol};
        chosen = nf_hash(0, identity) % ONE_OF == 0;
    }
    nf_reset(pkt);
    if (chosen)
        copy(pkt);
    nf_send(pkt, 1 - (nf_port(pkt) & 1));
}
