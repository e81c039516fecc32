/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * two_keys: a packet appends to a byte string and reads bytes behind that under another key of the
 * same table, which may be the same one, and under the first one again; entries are emptied, made
 * anew and evicted in between.
 */
#include <nicforge.h>

NF_PORTS(2);

struct head {
    uint8_t how, key, other, place, bytes;
};

struct told {
    uint32_t word, seen;
    uint16_t last, length, again;
};

NF_BUF_TABLE(hash, kept, uint8_t, uint32_t, 24, 300);
NF_BUF_TABLE(lru, recent, uint8_t, uint16_t, 8, 100);

void net_recv(nf_pkt pkt)
{
    struct head head;
    struct told told = {0};

    if (!nf_extract(pkt, &head)) {
        nf_drop(pkt, "too short");
        return;
    }
    if (head.how & 1) {
        nf_update(&kept, head.key, head.how);
        nf_buf_append_pkt(&kept, head.key, pkt, head.bytes);
        if (head.how & 2)
            nf_buf_append(&kept, head.key, head);
        if (head.how & 4)
            nf_delete(&kept, head.other);
        if (head.how & 8)
            nf_update(&kept, head.other, head.place);
        if (head.how & 16)
            nf_buf_append(&kept, head.other, head.how);
        nf_buf_read(&kept, head.other, head.place, &told.word);
        told.length = nf_buf_len(&kept, head.other);
        if (told.length >= 2)
            nf_buf_read(&kept, head.other, told.length - 2, &told.last);
        /* Under the first key again, behind what was done under the other one. */
        if (head.how & 32)
            nf_buf_append(&kept, head.key, told.length);
        nf_buf_read(&kept, head.key, head.place / 2, &told.seen);
        told.again = nf_buf_len(&kept, head.key);
        if (told.again > 200)
            nf_buf_send(&kept, head.key, 1);
    } else {
        /* Whoever comes under the other key may evict the first one's entry. */
        nf_update(&recent, head.key, head.bytes);
        nf_buf_append(&recent, head.key, head);
        if (head.how & 2)
            nf_update(&recent, head.other, head.how);
        if (head.how & 4)
            nf_buf_append_pkt(&recent, head.other, pkt, head.bytes & 7);
        nf_buf_read(&recent, head.other, head.place / 4, &told.word);
        told.length = nf_buf_len(&recent, head.other);
        if (told.length > 60)
            nf_buf_clear(&recent, head.other);
    }
    nf_host_msg(told);
    nf_send(pkt, head.how >> 7);
}
