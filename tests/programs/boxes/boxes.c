/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * boxes: byte strings of arrays, whose places are the entries' numbers: appended to, read, emptied
 * and given out, one of a packet or two that may be the same, also behind the array's end. The host
 * fills some of them beforehand.
 */
#include <nicforge.h>

NF_PORTS(2);

struct head {
    uint8_t how, box, other, place, bytes;
};

struct told {
    uint32_t count, word;
    uint16_t length, seen;
};

NF_BUF_TABLE(array, boxes, uint32_t, uint32_t, 12, 150);
NF_BUF_TABLE(array, pairs, uint32_t, uint16_t, 1000, 90);

void net_recv(nf_pkt pkt)
{
    struct head head;
    struct told told = {0};

    if (!nf_extract(pkt, &head)) {
        nf_drop(pkt, "too short");
        return;
    }
    if (head.how & 1) {
        nf_lookup(&boxes, head.box, &told.count);
        nf_update(&boxes, head.box, told.count + 1);
        if (!nf_buf_append_pkt(&boxes, head.box, pkt, head.bytes))
            nf_buf_clear(&boxes, head.box);
        nf_buf_read(&boxes, head.box, head.place, &told.word);
        told.length = nf_buf_len(&boxes, head.box);
        if (told.length > 100)
            nf_buf_send(&boxes, head.box, 1);
    } else {
        nf_buf_append(&pairs, head.box, head);
        nf_add_value(&pairs, head.other, head.bytes);
        nf_buf_read(&pairs, head.other, head.place / 2, &told.seen);
        told.length = nf_buf_len(&pairs, head.other);
        if (told.length > 60)
            nf_buf_to_host(&pairs, head.other);
        else if (head.how & 2)
            nf_buf_append_pkt(&pairs, head.other, pkt, head.bytes & 7);
    }
    nf_host_msg(told);
    nf_send(pkt, head.how >> 7);
}
