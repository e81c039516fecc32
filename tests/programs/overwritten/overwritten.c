/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * overwritten: bytes of the frame are overwritten where they lie, at places that are constants and
 * data, over one another and beyond the frame's end, read again, and sent in front of and behind
 * headers that are new. The first two bytes say what is done.
 */
#include <nicforge.h>

NF_PORTS(2);

struct head {
    uint8_t b[14];
};

struct found {
    uint32_t word;
    uint8_t stored;
};

void net_recv(nf_pkt pkt)
{
    uint8_t how, place;
    struct head head;
    struct found found = {0};
    uint32_t word = 0xa1b2c3d4;
    uint16_t half = 0x5566;

    if (!nf_load(pkt, 0, &how) || !nf_load(pkt, 1, &place)) {
        nf_drop(pkt, "too short");
        return;
    }
    if (place & 128) {
        /* Behind a header whose length is data. */
        if (!nf_strip(pkt, (uint32_t)(place & 3) * 4)) {
            nf_drop(pkt, "too short");
            return;
        }
        found.stored |= nf_store(pkt, 5, &half) << 7;
        nf_reset(pkt);
    }
    if (how & 1)
        found.stored |= nf_store(pkt, 20, &word);
    if (how & 2)
        found.stored |= nf_store(pkt, 8 + (place & 31), &half) << 1;
    if (how & 4) {
        found.stored |= nf_load(pkt, 18 + (place & 3), &found.word) << 2;
        found.stored |= nf_store(pkt, 4, &found.word) << 3;
    }
    if (how & 8) {
        if (!nf_extract(pkt, &head)) {
            nf_drop(pkt, "no head");
            return;
        }
        /* Below zero is far beyond the frame. */
        found.stored |= nf_load(pkt, (place & 15) * 4 - 20, &half) << 6;
        if (how & 16)
            found.stored |= nf_store(pkt, (place & 64) ? 48 : 3, &half) << 4;
        if (how & 32)
            found.stored |= nf_trim(pkt, 20) << 5;
        if (how & 64)
            nf_emit(pkt, &head);
        nf_emit(pkt, &found);
        nf_send(pkt, how & 1);
        return;
    }
    if (how & 16)
        nf_trim(pkt, 24);
    if (how & 32)
        nf_emit(pkt, &found);
    if (how & 64)
        nf_pass(pkt);
    else if (how & 128)
        nf_to_host(pkt);
    else
        nf_send(pkt, 0);
}
