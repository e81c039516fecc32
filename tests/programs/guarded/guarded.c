/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * guarded: bytes at places of which conditions on the way say that they are small, of all sizes,
 * near one another and apart, and beyond the frame's end. The third byte says which conditions
 * there are.
 */
#include <nicforge.h>

NF_PORTS(1);

struct large {
    uint8_t b[11];
};

struct NF_PACKED found {
    uint32_t there;
    uint32_t sum;
    uint32_t word;
    uint16_t half;
    uint8_t one;
    struct large large;
};

void net_recv(nf_pkt pkt)
{
    nf_be16 far;
    uint8_t how;
    struct found found = {0};

    if (!nf_load(pkt, 0, &far) || !nf_load(pkt, 2, &how)) {
        nf_drop(pkt, "too short");
        return;
    }
    uint32_t place = nf_ntohs(far);
    /* One of two, of which the second one holds if the first does not. */
    if (place > 90 || (how % 8 == 5 && place >= 20)) {
        nf_drop(pkt, "too far");
        return;
    }
    for (uint32_t i = 0; i < 24; i++) {
        uint8_t c = 0;
        if (i >= how % 32)
            break;
        found.there += nf_load(pkt, place + i, &c);
        found.sum = found.sum * 3 + c;
    }
    bool near = (how & 1) && place < 40;
    if (near) {
        found.there |= nf_load(pkt, place + 37, &found.one) << 8;
        found.there |= nf_load(pkt, 6 + place, &found.large) << 9;
        found.there |= nf_load(pkt, place + 2 + 31, &found.word) << 10;
    } else if (how & 2) {
        /* Below zero is far beyond the frame. */
        found.there |= nf_load(pkt, place - 10, &found.half) << 11;
        if (!(place != 7))
            found.there |= nf_load(pkt, place * 4, &found.word) << 12;
    }
    nf_emit(pkt, &found);
    nf_send(pkt, 0);
}
