/* Unions whose members are the same otherwise, as Linux's headers have them: IPv4's addresses are
 * also a group of their own. */
#include <nicforge.h>

typedef uint8_t __u8;
typedef uint16_t __be16;
typedef uint32_t __be32;

#define GROUP(name, members)                                                                       \
    union {                                                                                        \
        struct {                                                                                   \
            members                                                                                \
        };                                                                                         \
        struct {                                                                                   \
            members                                                                                \
        } name;                                                                                    \
    }

struct ip {
    __u8 ihl : 4, version : 4;
    __u8 tos;
    __be16 length;
    __be16 id;
    __be16 fragment;
    __u8 ttl;
    __u8 protocol;
    __be16 check;
    GROUP(addrs, __be32 saddr; __be32 daddr;);
};

struct pair {
    union {
        uint16_t port;
        uint16_t number;
    };
    uint16_t rest;
};

NF_TABLE(hash, seen, struct ip, struct pair, 64);

static uint32_t both(const struct ip *ip)
{
    return nf_ntohl(ip->saddr) ^ nf_ntohl(ip->addrs.daddr);
}

void net_recv(nf_pkt pkt)
{
    struct nf_eth eth;
    struct ip ip;
    if (!nf_extract(pkt, &eth) || !nf_extract(pkt, &ip)) {
        nf_drop(pkt, "short");
        return;
    }
    struct ip key = {.addrs = {.saddr = ip.saddr}, .protocol = ip.protocol};
    key.daddr = ip.addrs.daddr;
    struct pair pair = {.number = 3};
    if (nf_lookup(&seen, key, &pair))
        pair.port += pair.number;
    pair.rest ^= both(&ip);
    nf_update(&seen, key, pair);
    ip.addrs = key.addrs;
    ip.addrs.saddr ^= nf_htonl(pair.port);
    nf_emit(pkt, &eth);
    nf_emit(pkt, &ip);
    nf_send(pkt, pair.rest & 1);
}
