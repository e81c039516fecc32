/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * compacted: bytes of a header are emitted if they are odd, then others as many as the header says,
 * and headers of which each is there or not. What is there is data.
 */
#include <nicforge.h>

NF_PORTS(1);

struct head {
    uint8_t how;
    uint8_t count;
    uint8_t b[6];
};

void net_recv(nf_pkt pkt)
{
    struct head head;

    if (!nf_extract(pkt, &head)) {
        nf_drop(pkt, "too short");
        return;
    }
    for (uint32_t at = 0; at < 6; at++) {
        if (head.b[at] & 1) {
            uint8_t one = head.b[at];
            nf_emit(pkt, &one);
        }
        if (head.b[at] == 0xfe)
            break;
    }
    for (uint32_t at = 0; at < 3; at++) {
        if (at >= (head.count & 3))
            break;
        nf_emit(pkt, &head.count);
    }
    if (head.how & 1)
        nf_emit(pkt, &head.b[0]);
    if (head.how & 2)
        nf_emit(pkt, &head.b[1]);
    if (head.how & 4)
        nf_emit(pkt, &head.b[2]);
    if (head.how & 8)
        nf_emit(pkt, &head.b[3]);
    if (head.how & 16)
        nf_emit(pkt, &head.b[4]);
    nf_send(pkt, 0);
}
