/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * l4lb: a layer-4 load balancer with Maglev hashing (Eisenbud et al., NSDI'16) for TCP and UDP over
 * IPv4 and IPv6. Clients are on port 0, servers on port 1. The destination address is rewritten to
 * the server's on the way in and back to the service's on the way out, with incremental checksums
 * (RFC 1624). Known flows keep their server when the ring changes.
 */
#include <nicforge.h>

NF_PORTS(2);

#define CLIENTS 0
#define SERVERS 1
#define RING 251 /* prime; one ring per service */

/* IPv4 addresses are in w[0], the rest zero. */
struct service_key {
    nf_ip6 address;
    nf_be16 port;
    uint8_t protocol;
};

struct service {
    uint32_t ring; /* first slot in `rings` */
};

struct backend {
    nf_ip6 address;
    nf_mac mac;
};

struct flow_key {
    nf_ip6 client;
    nf_ip6 other; /* the service's address, or the server's in `returns` */
    nf_be16 client_port;
    nf_be16 port;
    uint8_t protocol;
};

struct chosen {
    uint32_t backend;
};

struct origin {
    nf_ip6 service;
    nf_mac client_mac;
    nf_mac our_mac;
};

NF_TABLE(hash, services, struct service_key, struct service, 64);
NF_TABLE(array, rings, uint32_t, uint32_t, 4096);
NF_TABLE(array, backends, uint32_t, struct backend, 256);
NF_TABLE(lru, flows, struct flow_key, struct chosen, 65536);
NF_TABLE(lru, returns, struct flow_key, struct origin, 65536);

struct ports {
    nf_be16 source;
    nf_be16 destination;
};

static inline nf_be16 patch6(nf_be16 csum, nf_ip6 from, nf_ip6 to)
{
    for (uint32_t i = 0; i < 4; i++)
        csum = nf_csum_replace32(csum, from.w[i], to.w[i]);
    return csum;
}

void net_recv(nf_pkt pkt)
{
    struct nf_eth eth;
    struct nf_ipv4 ip4;
    struct nf_ipv6 ip6;
    nf_ip6 src = {0}, dst = {0};
    uint8_t protocol;

    if (!nf_extract(pkt, &eth)) {
        nf_drop(pkt, "shorter than an Ethernet header");
        return;
    }
    bool v4 = eth.type == nf_htons(NF_ETH_IPV4);
    bool v6 = eth.type == nf_htons(NF_ETH_IPV6);
    if (!v4 && !v6) {
        nf_reset(pkt);
        nf_pass(pkt);
        return;
    }
    if (v4) {
        if (!nf_extract(pkt, &ip4) || ip4.ihl != 5 ||
            (ip4.frag & nf_htons(NF_IPV4_MORE | NF_IPV4_OFFSET)) != 0) {
            nf_drop(pkt, "truncated, options or fragment");
            return;
        }
        protocol = ip4.protocol;
        src.w[0] = ip4.src;
        dst.w[0] = ip4.dst;
    } else {
        if (!nf_extract(pkt, &ip6)) {
            nf_drop(pkt, "truncated, options or fragment");
            return;
        }
        protocol = ip6.next_header;
        src = ip6.src;
        dst = ip6.dst;
    }
    struct ports ports;
    if (!nf_load(pkt, 0, &ports) || (protocol != NF_IP_TCP && protocol != NF_IP_UDP)) {
        nf_reset(pkt);
        nf_pass(pkt);
        return;
    }

    /* The new address on the side that is rewritten. */
    nf_ip6 from, to;
    bool inbound = nf_port(pkt) == CLIENTS;
    if (inbound) {
        struct flow_key key = {0};
        key.client = src;
        key.other = dst;
        key.client_port = ports.source;
        key.port = ports.destination;
        key.protocol = protocol;
        struct chosen chosen;
        if (!nf_lookup(&flows, key, &chosen)) {
            struct service_key wanted = {0};
            wanted.address = dst;
            wanted.port = ports.destination;
            wanted.protocol = protocol;
            struct service service;
            if (!nf_lookup(&services, wanted, &service)) {
                nf_reset(pkt);
                nf_pass(pkt);
                return;
            }
            nf_lookup(&rings, service.ring + nf_hash(0, key) % RING, &chosen.backend);
            nf_update(&flows, key, chosen);
        }
        struct backend backend;
        nf_lookup(&backends, chosen.backend, &backend);
        key.other = backend.address;
        struct origin origin = {dst, eth.src, eth.dst};
        nf_update(&returns, key, origin);
        from = dst;
        to = backend.address;
        eth.src = eth.dst;
        eth.dst = backend.mac;
        ip4.dst = to.w[0];
        ip6.dst = to;
    } else {
        struct flow_key key = {0};
        key.client = dst;
        key.other = src;
        key.client_port = ports.destination;
        key.port = ports.source;
        key.protocol = protocol;
        struct origin origin;
        if (!nf_lookup(&returns, key, &origin)) {
            nf_drop(pkt, "answer to no request");
            return;
        }
        from = src;
        to = origin.service;
        eth.src = origin.our_mac;
        eth.dst = origin.client_mac;
        ip4.src = to.w[0];
        ip6.src = to;
    }

    /* Write what changed into the frame where it lies. */
    uint32_t l4_csum = protocol == NF_IP_TCP ? 16 : 6;
    nf_be16 csum = 0;
    if (nf_load(pkt, l4_csum, &csum) && (protocol == NF_IP_TCP || csum != 0)) {
        csum = patch6(csum, from, to);
        if (csum == 0 && protocol == NF_IP_UDP)
            csum = 0xffff;
        nf_store(pkt, l4_csum, &csum);
    }
    nf_emit(pkt, &eth);
    if (v4) {
        ip4.csum = nf_csum_replace32(ip4.csum, from.w[0], to.w[0]);
        nf_emit(pkt, &ip4);
    } else {
        nf_emit(pkt, &ip6);
    }
    nf_send(pkt, inbound ? SERVERS : CLIENTS);
}
