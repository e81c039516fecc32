/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * nat.c - address translation of the IPv4 packet in the payload, UDP or TCP: what comes from 10.0.0.0/8 leaves with one
 * outside address and a port of its own, what comes to that address goes back to whom the port belongs. Checksums are
 * updated by what changed (RFC 1624). Answered by the translated headers.
 *
 * Ports are a function of the flow's hash, as in tables that were filled before: 1,000 flows (or 10,000) are known from
 * the start and others are refused, so that every side translates alike.
 */
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>

#include "function.h"

#define OUTSIDE 0xc6336401u /* 198.51.100.1 */
#define FIRST_PORT 20000
#define SLOTS 32768
#define IP_HEAD 20

struct flow {
    uint32_t address;
    uint16_t port;
    uint8_t protocol;
    bool used;
};

struct nat {
    uint32_t flows;
    struct flow flow[10000];
    uint16_t slot[SLOTS]; /* 1 + flow */
};

static uint32_t slot_of(uint32_t address, uint16_t port, uint8_t protocol)
{
    return (uint32_t)mix((uint64_t)address << 32 | (uint32_t)port << 8 | protocol) % SLOTS;
}

static struct flow flow_at(uint32_t number)
{
    uint64_t word = mix(number ^ 0x6e6174);
    return (struct flow){0x0a000000u | (word & 0xffffff), (uint16_t)(1024 + (word >> 24) % 60000),
                         word >> 63 ? IPPROTO_TCP : IPPROTO_UDP, true};
}

static int find(const struct nat *nat, uint32_t address, uint16_t port, uint8_t protocol)
{
    for (uint32_t slot = slot_of(address, port, protocol); nat->slot[slot]; slot = (slot + 1) % SLOTS) {
        const struct flow *flow = &nat->flow[nat->slot[slot] - 1];
        if (flow->address == address && flow->port == port && flow->protocol == protocol)
            return nat->slot[slot] - 1;
    }
    return -1;
}

static void *nat_make(const char *config, struct arena *arena)
{
    (void)arena;
    unsigned long flows = config ? strtoul(config, NULL, 10) : 1000;
    if (flows != 1000 && flows != 10000) {
        fprintf(stderr, "nat: `%s` is neither 1000 nor 10000 flows\n", config);
        return NULL;
    }
    struct nat *nat = calloc(1, sizeof *nat);
    if (!nat)
        return NULL;
    nat->flows = (uint32_t)flows;
    for (uint32_t number = 0; number < nat->flows; number++) {
        struct flow flow = flow_at(number);
        uint32_t slot = slot_of(flow.address, flow.port, flow.protocol);
        nat->flow[number] = flow;
        while (nat->slot[slot])
            slot = (slot + 1) % SLOTS;
        nat->slot[slot] = (uint16_t)(number + 1);
    }
    return nat;
}

/* Writes `bytes` at `at` and mends a checksum over them: HC' = ~(~HC + ~m + m'). Addresses and ports lie even. */
static void rewrite(uint8_t *at, const uint8_t *bytes, size_t size, uint8_t *sum_a, uint8_t *sum_b)
{
    uint32_t change = 0;
    for (size_t i = 0; i < size; i += 2) {
        change += (uint16_t)~(at[i] << 8 | at[i + 1]);
        change += (uint32_t)(bytes[i] << 8 | bytes[i + 1]);
    }
    memcpy(at, bytes, size);
    for (int i = 0; i < 2; i++) {
        uint8_t *sum = i ? sum_b : sum_a;
        if (!sum)
            continue;
        uint32_t total = (uint16_t)~(sum[0] << 8 | sum[1]) + change;
        total = (total & 0xffff) + (total >> 16);
        total = (total & 0xffff) + (total >> 16);
        sum[0] = (uint8_t)(~total >> 8);
        sum[1] = (uint8_t)~total;
    }
}

static ssize_t nat_serve(void *state, uint8_t *packet, size_t size, uint8_t *result, size_t room)
{
    const struct nat *nat = state;
    if (size < IP_HEAD + 8 || room < IP_HEAD + 8 || packet[0] != 0x45)
        return -1;
    uint8_t protocol = packet[9], *l4 = packet + IP_HEAD;
    size_t head = protocol == IPPROTO_TCP ? 20 : 8;
    if ((protocol != IPPROTO_TCP && protocol != IPPROTO_UDP) || size < IP_HEAD + head || room < IP_HEAD + head)
        return -1;
    uint8_t *l4_sum = protocol == IPPROTO_TCP ? l4 + 16 : l4 + 6;
    if (protocol == IPPROTO_UDP && l4_sum[0] == 0 && l4_sum[1] == 0)
        l4_sum = NULL; /* no checksum stays none */
    uint32_t source = ntohl(load32(packet + 12)), destination = ntohl(load32(packet + 16));
    uint8_t port[2], address[4];
    uint32_t new_address;
    uint16_t new_port;
    bool leaves = source >> 24 == 10;
    if (leaves) {
        int number = find(nat, source, (uint16_t)(l4[0] << 8 | l4[1]), protocol);
        if (number < 0)
            return -1;
        new_address = OUTSIDE;
        new_port = (uint16_t)(FIRST_PORT + number);
    } else {
        uint32_t number = (uint32_t)(l4[2] << 8 | l4[3]) - FIRST_PORT;
        if (destination != OUTSIDE || number >= nat->flows || nat->flow[number].protocol != protocol)
            return -1;
        new_address = nat->flow[number].address;
        new_port = nat->flow[number].port;
    }
    store32(address, htonl(new_address));
    store16(port, htons(new_port));
    rewrite(packet + (leaves ? 12 : 16), address, 4, packet + 10, l4_sum);
    rewrite(l4 + (leaves ? 0 : 2), port, 2, l4_sum, NULL);
    if (l4_sum && protocol == IPPROTO_UDP && l4_sum[0] == 0 && l4_sum[1] == 0)
        l4_sum[0] = l4_sum[1] = 0xff;
    memcpy(result, packet, IP_HEAD + head);
    return (ssize_t)(IP_HEAD + head);
}

static uint16_t sum_of(const uint8_t *at, size_t size, uint32_t sum)
{
    for (size_t i = 0; i < size; i++)
        sum += i % 2 ? at[i] : (uint32_t)at[i] << 8;
    while (sum >> 16)
        sum = (sum & 0xffff) + (sum >> 16);
    return (uint16_t)~sum;
}

static size_t nat_packet(const void *state, uint64_t number, uint8_t *packet)
{
    const struct nat *nat = state;
    uint64_t word = mix(number);
    uint32_t at = skewed(number, nat->flows);
    struct flow flow = nat->flow[at];
    bool leaves = word & 1;
    size_t head = flow.protocol == IPPROTO_TCP ? 20 : 8, payload = PACKET_BYTES - IP_HEAD - head, l4 = head + payload;
    uint32_t far = 0xcb007100u | (word >> 8 & 0xff), ends[2] = {leaves ? flow.address : far, leaves ? far : OUTSIDE};
    uint16_t far_port = (uint16_t)(80 + (word >> 16 & 7)),
             ports[2] = {leaves ? flow.port : far_port, leaves ? far_port : (uint16_t)(FIRST_PORT + at)};
    memset(packet, 0, IP_HEAD + head);
    packet[0] = 0x45;
    store16(packet + 2, htons((uint16_t)(IP_HEAD + l4)));
    store16(packet + 4, (uint16_t)word);
    packet[8] = 64;
    packet[9] = flow.protocol;
    for (int i = 0; i < 2; i++) {
        store32(packet + 12 + i * 4, htonl(ends[i]));
        store16(packet + IP_HEAD + i * 2, htons(ports[i]));
    }
    store16(packet + 10, htons(sum_of(packet, IP_HEAD, 0)));
    if (flow.protocol == IPPROTO_TCP)
        packet[IP_HEAD + 12] = 0x50;
    else
        store16(packet + IP_HEAD + 4, htons((uint16_t)l4));
    for (size_t i = 0; i < payload; i += 8) {
        uint64_t bytes = mix(word + i);
        memcpy(packet + IP_HEAD + head + i, &bytes, payload - i < 8 ? payload - i : 8);
    }
    uint32_t pseudo = (ends[0] >> 16) + (ends[0] & 0xffff) + (ends[1] >> 16) + (ends[1] & 0xffff) + flow.protocol;
    uint16_t sum = sum_of(packet + IP_HEAD, l4, pseudo + (uint32_t)l4);
    if (flow.protocol == IPPROTO_UDP)
        sum = word % 16 == 1 ? 0 : sum ? sum : 0xffff;
    store16(packet + IP_HEAD + (flow.protocol == IPPROTO_TCP ? 16 : 6), htons(sum));
    return IP_HEAD + l4;
}

const struct function nat = {
    .name = "nat",
    .what = "address translation with 1000 (or 10000) flows",
    .make = nat_make,
    .serve = nat_serve,
    .packet = nat_packet,
};
