/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * ragged: loops emit as many bytes as the packet says, or as there are before a zero; between
 * headers of which one is there on some ways only; in front of payload, of what is left of it, and
 * of nothing. The first byte says what is done.
 */
#include <nicforge.h>

NF_PORTS(2);

#define MOST 12

struct head {
    uint8_t b[6];
};

struct tail {
    uint8_t b[5];
};

void net_recv(nf_pkt pkt)
{
    uint8_t how, count;
    struct head head;
    struct tail tail = {{'t', 'a', 'i', 'l', '.'}};

    if (!nf_load(pkt, 0, &how) || !nf_load(pkt, 1, &count)) {
        nf_drop(pkt, "too short");
        return;
    }
    if (how & 1) {
        if (!nf_extract(pkt, &head)) {
            nf_drop(pkt, "no head");
            return;
        }
        nf_emit(pkt, &head);
    }
    /* On some ways only: both lists go through the loop. */
    if (how & 2)
        nf_emit(pkt, &tail);
    if (how & 4) {
        for (uint32_t i = 0; i < MOST; i++) {
            if (i >= count % 16)
                break;
            uint8_t c;
            nf_load(pkt, 2 + i, &c);
            nf_emit(pkt, &c);
        }
    } else {
        uint32_t length = 0;
        for (uint32_t i = 0; i < MOST; i++) {
            uint8_t c;
            if (!nf_load(pkt, 2 + i, &c) || c == 0)
                break;
            length = i + 1;
            nf_emit(pkt, &c);
            if (c != 1)
                c = how;
            nf_emit(pkt, &c);
        }
        /* At a place that the loop decided. */
        uint8_t behind = 0;
        if (nf_load(pkt, length + 3, &behind))
            tail.b[4] = behind;
    }
    if (how & 8)
        nf_emit(pkt, &tail);
    if (how & 16)
        nf_trim(pkt, how & 32 ? 0 : 7);
    if (how & 64)
        nf_to_host(pkt);
    else
        nf_send(pkt, how >> 7);
}
