/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * appended: byte strings of a hash table get values, large and small, and payload of which bytes
 * were overwritten in place, and are given out when they are long. The first byte says what is
 * done, the second for which key.
 */
#include <nicforge.h>

NF_PORTS(2);

struct NF_PACKED head {
    uint8_t how;
    uint8_t key;
    uint8_t place;
    uint8_t bytes;
};

struct record {
    uint8_t b[70];
};

struct told {
    uint32_t length;
    uint32_t refused;
    struct head head;
};

NF_BUF_TABLE(hash, kept, uint8_t, uint32_t, 24, 500);

void net_recv(nf_pkt pkt)
{
    struct head head;
    struct record record;
    struct told told = {0};

    if (!nf_extract(pkt, &head)) {
        nf_drop(pkt, "too short");
        return;
    }
    told.head = head;
    if (!nf_update(&kept, head.key, head.place))
        told.refused |= 8;
    if (head.how & 1 && !nf_buf_append(&kept, head.key, head))
        told.refused |= 1;
    if (head.how & 2) {
        uint32_t word = 0xa1b2c3d4;
        nf_store(pkt, head.place & 31, &word);
        if (!nf_buf_append_pkt(&kept, head.key, pkt, head.bytes))
            told.refused |= 2;
    }
    if (head.how & 4 && nf_extract(pkt, &record) && !nf_buf_append(&kept, head.key, record))
        told.refused |= 4;
    told.length = nf_buf_len(&kept, head.key);
    if (told.length > 250)
        nf_buf_send(&kept, head.key, head.how >> 7);
    nf_host_msg(told);
    nf_drop(pkt, "told");
}
