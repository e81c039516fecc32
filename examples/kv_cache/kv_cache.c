/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * kv_cache: memcached (binary protocol over UDP) for small items that do not expire: SET and GET of
 * keys up to 32 and values up to 64 bytes are answered here. All else, also a GET that finds
 * nothing, goes to the operating system, where a full memcached listens; a request of this form
 * that might change an item there removes it here.
 */
#include <nicforge.h>

NF_PORTS(1);

#define MEMCACHED_PORT 11211
#define KEY_BYTES 32
#define VALUE_BYTES 64

#define GET 0x00
#define SET 0x01
#define OUT_OF_MEMORY 0x0082

/* In front of every UDP datagram of memcached. */
struct NF_PACKED frame {
    nf_be16 request;
    nf_be16 sequence;
    nf_be16 datagrams;
    nf_be16 reserved;
};

struct NF_PACKED binary {
    uint8_t magic; /* 0x80 request, 0x81 response */
    uint8_t opcode;
    nf_be16 key_length;
    uint8_t extras_length;
    uint8_t data_type;
    nf_be16 status;
    nf_be32 body_length;
    nf_be32 opaque;
    nf_be64 cas;
};

struct key {
    uint8_t length;
    uint8_t b[KEY_BYTES];
};

struct item {
    nf_be32 flags;
    uint32_t length;
    uint8_t b[VALUE_BYTES];
};

struct NF_PACKED word {
    nf_be32 value;
};

/* In front of a SET's key. */
struct NF_PACKED set_extras {
    nf_be32 flags;
    nf_be32 expiration;
};

NF_TABLE(lru, items, struct key, struct item, 65536);

static inline void to_stack(nf_pkt pkt)
{
    nf_reset(pkt);
    nf_pass(pkt);
}

void net_recv(nf_pkt pkt)
{
    struct nf_eth eth;
    struct nf_ipv4 ip;
    struct nf_udp udp;
    struct frame frame;
    struct binary request;

    if (!nf_extract(pkt, &eth) || eth.type != nf_htons(NF_ETH_IPV4) || !nf_extract(pkt, &ip) ||
        ip.ihl != 5 || (ip.frag & nf_htons(NF_IPV4_MORE | NF_IPV4_OFFSET)) != 0 ||
        ip.protocol != NF_IP_UDP || !nf_extract(pkt, &udp) ||
        udp.dport != nf_htons(MEMCACHED_PORT) || !nf_extract(pkt, &frame) ||
        frame.datagrams != nf_htons(1) || !nf_extract(pkt, &request) || request.magic != 0x80 ||
        request.data_type != 0) {
        to_stack(pkt);
        return;
    }
    uint32_t key_length = nf_ntohs(request.key_length);
    uint32_t body = nf_ntohl(request.body_length);
    uint32_t extras = request.extras_length;
    if (key_length == 0 || key_length > KEY_BYTES || body > nf_len(pkt) ||
        key_length + extras > body) {
        to_stack(pkt);
        return;
    }
    struct key key = {0};
    key.length = key_length;
    for (uint32_t i = 0; i < KEY_BYTES; i++) {
        if (i >= key_length)
            break;
        uint8_t c;
        nf_load(pkt, extras + i, &c);
        key.b[i] = c;
    }

    struct set_extras set_extras;
    bool get = request.opcode == GET && body == key_length;
    /* Items that expire and compare-and-swap are for the full server. */
    bool set = request.opcode == SET && extras == sizeof(set_extras) &&
               body - extras - key_length <= VALUE_BYTES && request.cas == 0 &&
               nf_load(pkt, 0, &set_extras) && set_extras.expiration == 0;

    struct item item = {0};
    uint32_t status = 0;
    uint32_t reply_extras = 0;
    if (get) {
        if (!nf_lookup(&items, key, &item)) {
            to_stack(pkt);
            return;
        }
        reply_extras = sizeof(struct word);
    } else if (set) {
        item.flags = set_extras.flags;
        item.length = body - extras - key_length;
        for (uint32_t i = 0; i < VALUE_BYTES; i++) {
            if (i >= item.length)
                break;
            uint8_t c;
            nf_load(pkt, extras + key_length + i, &c);
            item.b[i] = c;
        }
        if (!nf_update(&items, key, item))
            status = OUT_OF_MEMORY;
    } else {
        if (request.opcode != GET)
            nf_delete(&items, key);
        to_stack(pkt);
        return;
    }

    uint32_t value_length = get ? item.length : 0;
    uint32_t payload = sizeof(struct frame) + sizeof(struct binary) + reply_extras + value_length;
    nf_mac mac = eth.src;
    eth.src = eth.dst;
    eth.dst = mac;
    nf_be32 address = ip.src;
    ip.src = ip.dst;
    ip.dst = address;
    ip.length = nf_htons(sizeof(struct nf_ipv4) + sizeof(struct nf_udp) + payload);
    ip.ttl = 64;
    ip.csum = 0;
    ip.csum = nf_csum_fold(nf_csum_add(0, ip));
    udp.dport = udp.sport;
    udp.sport = nf_htons(MEMCACHED_PORT);
    udp.length = nf_htons(sizeof(struct nf_udp) + payload);
    udp.csum = 0;
    struct binary reply = {0};
    reply.magic = 0x81;
    reply.opcode = request.opcode;
    reply.extras_length = reply_extras;
    reply.status = nf_htons(status);
    reply.body_length = nf_htonl(reply_extras + value_length);
    reply.opaque = request.opaque;
    nf_emit(pkt, &eth);
    nf_emit(pkt, &ip);
    nf_emit(pkt, &udp);
    nf_emit(pkt, &frame);
    nf_emit(pkt, &reply);
    if (reply_extras != 0) {
        struct word flags = {item.flags};
        nf_emit(pkt, &flags);
    }
    for (uint32_t i = 0; i < VALUE_BYTES; i++) {
        if (i >= value_length)
            break;
        nf_emit(pkt, &item.b[i]);
    }
    nf_trim(pkt, 0);
    nf_send(pkt, nf_port(pkt));
}
