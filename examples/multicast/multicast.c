/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * multicast: sends IPv4 multicast from port 0 to those behind port 1 that asked for it, to each as
 * a unicast frame of its own, as wireless access points do (RFC 9119, 3.6.1). Hosts join and leave
 * by IGMPv2 (RFC 2236); the router behind port 0 gets their messages.
 */
#include <nicforge.h>

NF_PORTS(2);

#define ROUTER 0
#define HOSTS 1
#define MEMBERS 4
#define IGMP 2
#define REPORT 0x16
#define LEAVE 0x17

struct igmp {
    uint8_t type, max_time;
    nf_be16 csum;
    nf_be32 group;
};

/* The first are in use. */
struct group {
    uint32_t members;
    nf_mac member[MEMBERS];
};

NF_TABLE(hash, groups, nf_be32, struct group, 1024);

static inline void join(nf_be32 address, nf_mac host, bool leaves)
{
    struct group group;
    nf_lookup(&groups, address, &group);
    uint32_t at = group.members;
    for (uint32_t i = 0; i < MEMBERS; i++)
        if (i < group.members && !memcmp(&group.member[i], &host, sizeof(host)))
            at = i;
    if (leaves && at < group.members) {
        group.members--;
        group.member[at % MEMBERS] = group.member[group.members % MEMBERS];
    } else if (!leaves && at == group.members && at < MEMBERS) {
        group.member[at] = host;
        group.members++;
    }
    nf_update(&groups, address, group);
}

static inline void replicate(nf_pkt pkt, struct nf_eth eth, nf_be32 address)
{
    struct group group;
    if (!nf_lookup(&groups, address, &group) || !group.members) {
        nf_drop(pkt, "no members");
        return;
    }
    for (uint32_t i = 1; i < MEMBERS; i++) {
        if (i < group.members) {
            eth.dst = group.member[i];
            nf_emit(pkt, &eth);
            nf_send(nf_clone(pkt), HOSTS);
            nf_reset(pkt);
            nf_strip(pkt, sizeof(eth));
        }
    }
    eth.dst = group.member[0];
    nf_emit(pkt, &eth);
    nf_send(pkt, HOSTS);
}

void net_recv(nf_pkt pkt)
{
    struct nf_eth eth;
    struct nf_ipv4 ip;
    struct igmp igmp;
    if (!nf_extract(pkt, &eth) || eth.type != NF_HTONS(NF_ETH_IPV4) || !nf_extract(pkt, &ip)) {
        nf_drop(pkt, "not IPv4");
        return;
    }
    bool from_hosts = nf_port(pkt) == HOSTS;
    if (from_hosts && ip.protocol == IGMP && nf_load(pkt, ip.ihl > 5 ? 4 : 0, &igmp) &&
        (igmp.type == REPORT || igmp.type == LEAVE))
        join(igmp.group, eth.src, igmp.type == LEAVE);
    nf_reset(pkt);
    if (from_hosts) {
        nf_send(pkt, ROUTER);
        return;
    }
    nf_strip(pkt, sizeof(eth));
    replicate(pkt, eth, ip.dst);
}
