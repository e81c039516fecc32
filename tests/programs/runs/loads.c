/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * Bytes of the packet into arrays: loops that are runs, and loops that only look like runs. The
 * first bytes of a packet say how many bytes and from where.
 */
#include <nicforge.h>

NF_PORTS(1);

struct asked {
    uint8_t count;
    uint8_t from;
    uint8_t step;
    uint8_t pad;
};

struct found {
    uint8_t lead;
    uint8_t whole[24];
    uint8_t some[13];
    uint16_t ended;
    uint8_t tail[16];
};

void net_recv(nf_pkt pkt)
{
    struct asked asked;
    if (!nf_extract(pkt, &asked)) {
        nf_drop(pkt, "short");
        return;
    }
    struct found found = {0};
    uint32_t count = asked.count;

    /* Goes on where the packet has ended, with zeroes. */
    for (uint32_t i = 0; i < sizeof(found.whole); i++) {
        if (i >= count)
            break;
        uint8_t c;
        nf_load(pkt, i, &c);
        found.whole[i] = c;
    }
    /* Ends there; the counter has eight bits and a sign, and is on the right. */
    int8_t i;
    for (i = 0; 13 > i && i <= (int8_t)asked.count; i++) {
        uint8_t c = 0;
        if (!nf_load(pkt, asked.from + i, &c))
            break;
        found.some[i] = c;
    }
    found.ended = i;
    /* More trips than the array has elements: what is beyond its end is not written. */
    for (uint8_t k = 0; k < 20; k++) {
        uint8_t c;
        if (k == asked.count)
            break;
        nf_load(pkt, k + 2u, &c);
        found.tail[k] = c;
    }
    nf_emit(pkt, &found);

    /* Backwards, every second one, and from a place that moves along: no runs. */
    struct found other = {0};
    for (uint32_t k = 0; k < 16; k++) {
        uint8_t c;
        nf_load(pkt, 15 - k, &c);
        other.tail[k] = c;
    }
    for (uint32_t k = 0; k < 12; k++) {
        uint8_t c;
        nf_load(pkt, 2 * k, &c);
        other.whole[k] = c;
    }
    uint32_t at = 0;
    for (uint32_t k = 0; k < 13; k++) {
        uint8_t c;
        nf_load(pkt, at + k, &c);
        other.some[k] = c;
        at += asked.step & 1;
    }
    /* Two counters, of which one starts where the packet says. */
    uint32_t off = asked.from;
    for (uint32_t k = 12; k < 24; k++) {
        uint8_t c;
        nf_load(pkt, off, &c);
        other.whole[k] = c;
        off++;
    }
    other.ended = off;
    nf_emit(pkt, &other);
    nf_send(pkt, 0);
}
