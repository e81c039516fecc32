/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * anywhere: values are read at places that the packet says, without a bound, in front of and behind
 * headers of any length; at places behind all that fits into a pipe; and where bytes were
 * overwritten before.
 */
#include <nicforge.h>

NF_PORTS(2);

struct NF_PACKED head {
    uint8_t how;
    uint8_t skipped;
    nf_be16 first;
    nf_be32 second;
};

struct big {
    uint8_t b[70];
};

struct told {
    uint32_t words[3];
    uint8_t bytes[5];
    uint8_t found;
};

void net_recv(nf_pkt pkt)
{
    struct head head;
    struct big big;
    struct told told = {{0, 0, 0}, {0, 0, 0, 0, 0}, 0};

    if (!nf_load(pkt, 0, &head)) {
        nf_drop(pkt, "too short");
        return;
    }
    uint32_t first = nf_ntohs(head.first);
    if (head.how & 1) {
        uint32_t word = 0x11223344;
        uint16_t half = 0x5566;
        nf_store(pkt, 12, &word);
        nf_store(pkt, 20 + (head.skipped & 15), &half);
    }
    told.found |= nf_load(pkt, first, &told.words[0]);
    told.found |= nf_load(pkt, nf_ntohl(head.second), &told.words[1]) << 1;
    told.found |= nf_load(pkt, 700, &told.bytes[0]) << 2;
    told.found |= nf_load(pkt, first + 33, &told.bytes[1]) << 3;
    told.found |= nf_load(pkt, 100000, &told.bytes[2]) << 4;
    if (head.how & 2) {
        /* A chain of lengths, as options have them. */
        if (!nf_strip(pkt, first)) {
            nf_drop(pkt, "too short");
            return;
        }
        uint8_t next = 0;
        told.found |= nf_extract(pkt, &next) << 5;
        told.bytes[3] = next;
        told.found |= nf_load(pkt, next, &told.bytes[4]) << 6;
    }
    if (head.how & 4 && nf_extract(pkt, &big)) {
        told.found |= 128;
        for (uint32_t at = 0; at < 70; at += 10)
            told.words[2] += big.b[at];
        if (head.how & 8)
            nf_emit(pkt, &big);
    }
    nf_emit(pkt, &told);
    nf_send(pkt, head.how >> 7);
}
