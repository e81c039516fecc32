/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * picked: loops copy bytes of a header into structs until the header says that it is enough, so
 * that what they leave is chosen byte by byte: over zeros, over bytes that were there, out of their
 * order, and not all of them.
 */
#include <nicforge.h>

NF_PORTS(1);

#define MOST 10

struct head {
    uint8_t count, stop, skip, how;
    uint8_t b[MOST];
    nf_be16 word;
};

struct found {
    uint8_t bytes;
    uint8_t b[MOST];
    nf_be16 sum;
};

void net_recv(nf_pkt pkt)
{
    struct head head;
    struct found fresh = {0}, mixed = {0}, turned = {0};

    if (!nf_extract(pkt, &head)) {
        nf_drop(pkt, "too short");
        return;
    }
    for (uint32_t i = 0; i < MOST; i++) {
        if (i >= head.count)
            break;
        fresh.b[i] = head.b[i];
    }
    for (uint32_t i = 0; i < MOST; i++)
        mixed.b[i] = head.b[MOST - 1 - i] ^ head.how;
    mixed.sum = head.word;
    for (uint32_t i = 0; i < MOST; i++) {
        mixed.bytes = i;
        if (head.b[i] == head.stop) {
            mixed.sum = nf_htons(head.stop);
            break;
        }
        if (head.b[i] == head.skip)
            continue;
        mixed.b[i] = head.b[i];
        if (i >= head.count)
            break;
    }
    for (uint32_t i = 0; i < MOST; i += 2) {
        if (head.how & 1 && head.b[i] > head.b[i + 1])
            break;
        turned.b[i] = head.b[i + 1];
        if (i >= head.count)
            break;
        turned.b[i + 1] = head.b[i];
        turned.bytes = head.b[i];
    }
    nf_emit(pkt, &fresh);
    nf_emit(pkt, &mixed);
    nf_emit(pkt, &turned);
    nf_send(pkt, 0);
}
