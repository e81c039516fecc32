/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * vxlan_gw: a VXLAN tunnel endpoint (RFC 7348). Frames from the local network (port 0) are wrapped
 * and sent over the underlay (port 1) to the endpoint behind which their destination lives; wrapped
 * frames come back out.
 */
#include <nicforge.h>

NF_PORTS(2);

#define LOCAL 0
#define UNDERLAY 1

struct self {
    nf_be32 address;
    nf_mac mac;
    uint8_t vni[3];
};

struct peer {
    nf_be32 address;
    nf_mac mac; /* next hop */
};

NF_TABLE(array, config, uint32_t, struct self, 1);
NF_TABLE(hash, peers, nf_mac, struct peer, 4096);

static inline void wrap(nf_pkt pkt, struct self self)
{
    struct nf_eth inner;
    struct peer peer;
    if (!nf_extract(pkt, &inner)) {
        nf_drop(pkt, "shorter than an Ethernet header");
        return;
    }
    if (!nf_lookup(&peers, inner.dst, &peer)) {
        nf_drop(pkt, "unknown destination");
        return;
    }
    nf_reset(pkt);
    uint32_t frame = nf_len(pkt);

    struct nf_eth eth = {peer.mac, self.mac, NF_HTONS(NF_ETH_IPV4)};
    struct nf_ipv4 ip = {0};
    ip.version = 4;
    ip.ihl = 5;
    ip.length =
        nf_htons(sizeof(struct nf_ipv4) + sizeof(struct nf_udp) + sizeof(struct nf_vxlan) + frame);
    ip.frag = NF_HTONS(0x4000); /* do not fragment */
    ip.ttl = 64;
    ip.protocol = NF_IP_UDP;
    ip.src = self.address;
    ip.dst = peer.address;
    ip.csum = nf_csum_fold(nf_csum_add(0, ip));
    struct nf_udp udp = {0};
    /* The source port spreads flows over the underlay's paths. */
    udp.sport = nf_htons(0xc000 | (nf_hash(0, inner) & 0x3fff));
    udp.dport = NF_HTONS(NF_VXLAN_PORT);
    udp.length = nf_htons(sizeof(struct nf_udp) + sizeof(struct nf_vxlan) + frame);
    struct nf_vxlan vxlan = {0};
    vxlan.flags = 0x08;
    vxlan.vni[0] = self.vni[0];
    vxlan.vni[1] = self.vni[1];
    vxlan.vni[2] = self.vni[2];

    nf_emit(pkt, &eth);
    nf_emit(pkt, &ip);
    nf_emit(pkt, &udp);
    nf_emit(pkt, &vxlan);
    nf_send(pkt, UNDERLAY);
}

static inline void unwrap(nf_pkt pkt, struct self self)
{
    struct nf_eth eth;
    struct nf_ipv4 ip;
    struct nf_udp udp;
    struct nf_vxlan vxlan;
    if (!nf_extract(pkt, &eth) || eth.type != nf_htons(NF_ETH_IPV4) || !nf_extract(pkt, &ip) ||
        ip.protocol != NF_IP_UDP || ip.ihl != 5 ||
        (ip.frag & nf_htons(NF_IPV4_MORE | NF_IPV4_OFFSET)) != 0 || ip.dst != self.address ||
        !nf_extract(pkt, &udp) || udp.dport != nf_htons(NF_VXLAN_PORT)) {
        nf_reset(pkt);
        nf_pass(pkt);
        return;
    }
    if (!nf_extract(pkt, &vxlan) || (vxlan.flags & 0x08) == 0) {
        nf_drop(pkt, "bad VXLAN header");
        return;
    }
    if (vxlan.vni[0] != self.vni[0] || vxlan.vni[1] != self.vni[1] || vxlan.vni[2] != self.vni[2]) {
        nf_drop(pkt, "another network's identifier");
        return;
    }
    if (nf_len(pkt) < sizeof(struct nf_eth)) {
        nf_drop(pkt, "no frame inside");
        return;
    }
    nf_send(pkt, LOCAL);
}

void net_recv(nf_pkt pkt)
{
    struct self self;
    nf_lookup(&config, 0, &self);
    if (nf_port(pkt) == LOCAL)
        wrap(pkt, self);
    else
        unwrap(pkt, self);
}
