/* NIC and host in one program: queues with and without packets in both directions. The host keeps
 * what was seen of each source; every second packet of a source it sends itself, every eighth it
 * drops, the others go back to the NIC side, which has counters of its own. The event without a
 * packet must come before its packet: it leaves the packet's number for it. */
#include <nicforge.h>

struct item {
    nf_be32 source;
    uint16_t length;
    uint8_t ttl;
    uint16_t number;
};

struct seen {
    uint64_t packets;
    uint64_t bytes;
};

NF_TABLE(hash, sources, nf_be32, struct seen, 4096);
NF_TABLE(array, kinds, uint32_t, uint64_t, 16);
NF_TABLE(array, announced, uint32_t, uint16_t, 1);
NF_TABLE(array, returned, uint32_t, uint64_t, 4);
NF_TABLE(hash, latest, nf_be32, uint64_t, 4096);

void kind(uint32_t which, uint16_t number);
void account(nf_pkt pkt, struct item item);
void reply(nf_pkt pkt, uint64_t packets, uint8_t ttl);
void note(nf_be32 source, uint64_t bytes);

void net_recv(nf_pkt pkt)
{
    struct nf_eth eth;
    struct nf_ipv4 ip;
    if (!nf_extract(pkt, &eth) || eth.type != nf_htons(NF_ETH_IPV4) || !nf_extract(pkt, &ip)) {
        nf_drop(pkt, "not IPv4");
        return;
    }
    uint16_t number = nf_ntohs(ip.id) ^ nf_ntohs(ip.length);
    nf_enqueue(kind, ip.protocol & 15, number);
    struct item item = {ip.src, nf_ntohs(ip.length), ip.ttl, number};
    nf_enqueue(account, pkt, item);
}

NF_ON(host);
void kind(uint32_t which, uint16_t number)
{
    nf_add_value(&kinds, which, 1);
    nf_update(&announced, 0, number);
}

NF_ON(host);
void account(nf_pkt pkt, struct item item)
{
    struct seen seen;
    uint16_t number;
    nf_lookup(&announced, 0, &number);
    if (number != item.number) {
        nf_drop(pkt, "out of order");
        return;
    }
    nf_lookup(&sources, item.source, &seen);
    seen.packets = seen.packets + 1;
    seen.bytes = seen.bytes + item.length;
    nf_update(&sources, item.source, seen);
    nf_enqueue(note, item.source, seen.bytes);
    if (seen.packets % 8 == 7) {
        nf_drop(pkt, "every eighth");
        return;
    }
    if (seen.packets % 2 == 0) {
        nf_reset(pkt);
        nf_send(pkt, 1 - nf_port(pkt));
        return;
    }
    nf_enqueue(reply, pkt, seen.packets, item.ttl);
}

void reply(nf_pkt pkt, uint64_t packets, uint8_t ttl)
{
    struct nf_udp udp;
    nf_add_value(&returned, packets & 3, 1);
    if (!nf_extract(pkt, &udp)) {
        nf_drop(pkt, "too short");
        return;
    }
    udp.csum = 0;
    struct item mark = {0, packets & 0xffff, ttl, 0};
    nf_emit(pkt, &mark);
    nf_emit(pkt, &udp);
    nf_send(pkt, nf_port(pkt));
}

void note(nf_be32 source, uint64_t bytes) { nf_update(&latest, source, bytes); }
