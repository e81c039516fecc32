/* A number that is mixed with itself again and again has more ways to its parts than anybody can
 * walk. */
#include <nicforge.h>

struct flow {
    uint32_t number;
    uint16_t port;
};

NF_TABLE(hash, flows, struct flow, uint64_t, 64);

static uint32_t mix(uint32_t h)
{
    h ^= h >> 15;
    h *= 0x2c1b3c6d;
    h ^= h << 7;
    return h + (h >> 3);
}

static uint32_t mix4(uint32_t h) { return mix(mix(mix(mix(h)))); }

static uint32_t mix16(uint32_t h) { return mix4(mix4(mix4(mix4(h)))); }

void net_recv(nf_pkt pkt)
{
    struct nf_eth eth;
    struct nf_ipv4 ip;
    if (!nf_extract(pkt, &eth) || !nf_extract(pkt, &ip)) {
        nf_drop(pkt, "short");
        return;
    }
    uint32_t first = mix16(nf_ntohl(ip.src)), second = mix16(nf_ntohl(ip.dst));
    struct flow flow = {
        .number = first < second ? mix16(first) : mix16(second),
        .port = (uint16_t)(nf_port(pkt) + (first & 1)),
    };
    uint64_t seen = 0;
    nf_lookup(&flows, flow, &seen);
    nf_update(&flows, flow, seen + 1);
    uint32_t self = first;
    {
        uint32_t self = self ^ second;
        seen += self;
    }
    nf_reset(pkt);
    nf_send(pkt, (self ^ (uint32_t)seen) & 1);
}
