/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * dns_cache: answers DNS queries (RFC 1035) of type A from a table; all others go to the operating
 * system's resolver.
 */
#include <nicforge.h>

NF_PORTS(1);

#define NAME_BYTES 48

struct NF_PACKED dns {
    nf_be16 id;
    nf_be16 flags;
    nf_be16 questions;
    nf_be16 answers;
    nf_be16 authorities;
    nf_be16 additionals;
};

/* A name as it is on the wire (lengths and labels), in lower case, with zeroes behind it. */
struct name {
    uint8_t b[NAME_BYTES];
};

struct NF_PACKED question_tail {
    nf_be16 type;
    nf_be16 class;
};

struct NF_PACKED answer {
    nf_be16 name; /* a pointer to the question's */
    nf_be16 type;
    nf_be16 class;
    nf_be32 ttl;
    nf_be16 length;
    nf_be32 address;
};

struct record {
    nf_be32 address;
    uint32_t ttl; /* seconds */
    uint32_t hits;
};

NF_TABLE(hash, records, struct name, struct record, 4096);

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
    struct dns dns;

    if (!nf_extract(pkt, &eth) || eth.type != nf_htons(NF_ETH_IPV4) || !nf_extract(pkt, &ip) ||
        ip.ihl != 5 || (ip.frag & nf_htons(NF_IPV4_MORE | NF_IPV4_OFFSET)) != 0 ||
        ip.protocol != NF_IP_UDP || !nf_extract(pkt, &udp) || udp.dport != nf_htons(53) ||
        !nf_extract(pkt, &dns)) {
        to_stack(pkt);
        return;
    }
    /* A standard query with one question. */
    if ((dns.flags & nf_htons(0xf800)) != 0 || dns.questions != nf_htons(1) || dns.answers != 0) {
        to_stack(pkt);
        return;
    }

    struct name name = {0};
    uint32_t length = 0;
    for (uint32_t i = 0; i < NAME_BYTES; i++) {
        uint8_t c;
        if (!nf_load(pkt, i, &c))
            break;
        if (c == 0) {
            length = i + 1;
            break;
        }
        if (c >= 'A' && c <= 'Z')
            c += 'a' - 'A';
        name.b[i] = c;
    }
    struct question_tail question;
    if (length == 0 || !nf_load(pkt, length, &question) || question.type != nf_htons(1) ||
        question.class != nf_htons(1)) {
        to_stack(pkt);
        return;
    }
    struct record record;
    if (!nf_lookup(&records, name, &record)) {
        to_stack(pkt);
        return;
    }
    nf_add(&records, name, hits, 1);

    uint32_t payload = sizeof(struct dns) + length + sizeof(question) + sizeof(struct answer);
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
    udp.sport = nf_htons(53);
    udp.length = nf_htons(sizeof(struct nf_udp) + payload);
    udp.csum = 0;
    /* An answer, recursion available; recursion desired and checking disabled as in the query. */
    dns.flags = nf_htons(0x8080 | (nf_ntohs(dns.flags) & 0x0110));
    dns.answers = nf_htons(1);
    dns.authorities = 0;
    dns.additionals = 0;
    nf_emit(pkt, &eth);
    nf_emit(pkt, &ip);
    nf_emit(pkt, &udp);
    nf_emit(pkt, &dns);
    /* The question as it came, capitals and all: some resolvers compare it. */
    for (uint32_t i = 0; i < NAME_BYTES; i++) {
        if (i >= length)
            break;
        uint8_t c;
        nf_load(pkt, i, &c);
        nf_emit(pkt, &c);
    }
    nf_emit(pkt, &question);
    struct answer answer = {0};
    answer.name = nf_htons(0xc00c);
    answer.type = nf_htons(1);
    answer.class = nf_htons(1);
    answer.ttl = nf_htonl(record.ttl);
    answer.length = nf_htons(4);
    answer.address = record.address;
    nf_emit(pkt, &answer);
    nf_trim(pkt, 0);
    nf_send(pkt, nf_port(pkt));
}
