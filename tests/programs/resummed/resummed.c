/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * resummed: bytes of the frame are overwritten where they lie, at places that are constants and
 * data, and then added up, from places and to places that are constants and data, odd and even;
 * written into the host's memory; and sent behind headers of any length. The first bytes say what
 * is done.
 */
#include <nicforge.h>

NF_PORTS(2);

struct NF_PACKED head {
    uint8_t how;
    uint8_t place;
    nf_be16 covered;
    uint8_t skipped;
    uint8_t count;
};

struct told {
    uint32_t before;
    uint32_t after;
    uint32_t odd;
};

void net_recv(nf_pkt pkt)
{
    struct head head;
    uint32_t word = 0xa1b2c3d4;
    uint16_t half = 0xfffe;
    uint8_t one = 0x7f;

    if (!nf_load(pkt, 0, &head)) {
        nf_drop(pkt, "too short");
        return;
    }
    struct told told = {nf_csum_payload(pkt, 7, nf_ntohs(head.covered)), 0, 0};
    if (head.how & 1)
        nf_store(pkt, 21, &word);
    if (head.how & 2)
        nf_store(pkt, 8 + (head.place & 31), &half);
    if (head.how & 4)
        nf_store(pkt, 60, &one);
    told.after = nf_csum_payload(pkt, 7, nf_ntohs(head.covered));
    if (head.how & 8)
        nf_dma_write(pkt, told.after, nf_ntohs(head.covered));
    if (head.how & 16) {
        if (!nf_strip(pkt, head.skipped)) {
            nf_drop(pkt, "too short");
            return;
        }
    } else {
        uint8_t odd[5];
        if (!nf_extract(pkt, &odd)) {
            nf_drop(pkt, "too short");
            return;
        }
    }
    if (head.how & 32)
        nf_store(pkt, 13, &half);
    told.odd = nf_csum_payload(pkt, 0, nf_ntohs(head.covered));
    if (head.how & 64) {
        if (head.how & 128)
            nf_dma_write(pkt, told.odd, 50);
        for (uint32_t at = 0; at < 5; at++) {
            if (at >= head.count)
                break;
            nf_emit(pkt, &one);
        }
    }
    nf_emit(pkt, &told);
    if (head.place & 128)
        nf_to_host(pkt);
    else
        nf_send(pkt, head.how & 1);
}
