// Headers of frames as they are on a wire, fields of several bytes in network order, and those of
// SLMP, the message protocol over UDP port 9330.
#ifndef PACKETS_H
#define PACKETS_H

#include <stdint.h>
#include <string.h>

typedef struct mac_addr {
    uint8_t data[6];
} __attribute__((__packed__)) mac_addr_t;

typedef struct eth_hdr {
    mac_addr_t dest;
    mac_addr_t src;
    uint16_t length; // EtherType
} __attribute__((__packed__)) eth_hdr_t;

typedef struct ip_hdr {
    uint8_t ihl : 4;
    uint8_t version : 4;
    uint8_t tos;
    uint16_t length;
    uint16_t identification;
    uint16_t offset;
    uint8_t ttl;
    uint8_t protocol;
    uint16_t checksum;
    uint32_t source_id;
    uint32_t dest_id;
} __attribute__((__packed__)) ip_hdr_t;

typedef struct udp_hdr {
    uint16_t src_port;
    uint16_t dst_port;
    uint16_t length;
    uint16_t checksum;
} __attribute__((__packed__)) udp_hdr_t;

typedef struct slmp_hdr {
    uint16_t flags;
    uint32_t msg_id;
    uint32_t pkt_off; // bytes from the start of the message
} __attribute__((__packed__)) slmp_hdr_t;

typedef struct pkt_hdr {
    eth_hdr_t eth_hdr;
    ip_hdr_t ip_hdr;
    udp_hdr_t udp_hdr;
} __attribute__((__packed__)) pkt_hdr_t;

typedef struct slmp_pkt_hdr {
    eth_hdr_t eth_hdr;
    ip_hdr_t ip_hdr;
    udp_hdr_t udp_hdr;
    slmp_hdr_t slmp_hdr;
} __attribute__((__packed__)) slmp_pkt_hdr_t;

#define MKEOM 0x8000
#define MKSYN 0x4000
#define MKACK 0x2000
#define EOM(flags) ((flags) & MKEOM)
#define SYN(flags) ((flags) & MKSYN)
#define ACK(flags) ((flags) & MKACK)

static inline uint16_t bswap_16(uint16_t value) { return __builtin_bswap16(value); }

static inline uint32_t bswap_32(uint32_t value)
{
    return (uint32_t)bswap_16((uint16_t)value) << 16 | bswap_16((uint16_t)(value >> 16));
}

#define htons(x) bswap_16(x)
#define htonl(x) bswap_32(x)
#define ntohs htons
#define ntohl htonl

// Bytes behind the SLMP header.
#define SLMP_PAYLOAD_LEN(hdrs)                                                                     \
    (ntohs(hdrs->udp_hdr.length) - sizeof(udp_hdr_t) - sizeof(slmp_hdr_t))

// Internet checksum (RFC 1071), ready to be stored. Whole words are added as they lie, with their
// carries: the sum of both halves, and its bytes swapped, is the same.
static inline uint16_t ip_checksum(void *vdata, size_t length)
{
    const uint8_t *data = (const uint8_t *)vdata;
    uint32_t sum = 0, one, two;
    size_t at = 0;

    for (; at + 8 <= length; at += 8) {
        memcpy(&one, data + at, 4);
        memcpy(&two, data + at + 4, 4);
        sum += one;
        sum += sum < one;
        sum += two;
        sum += sum < two;
    }
    sum = (sum & 0xffff) + (sum >> 16);
    for (; at + 2 <= length; at += 2) {
        uint16_t word;
        memcpy(&word, data + at, 2);
        sum += word;
    }
    if (at < length)
        sum += data[at];
    while (sum >> 16)
        sum = (sum & 0xffff) + (sum >> 16);
    return (uint16_t)~sum;
}

#endif
