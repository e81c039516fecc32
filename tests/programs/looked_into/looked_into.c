/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * looked_into: some packets append to byte strings of a hash table and of an LRU table, others read
 * bytes of them, at constant places, at any place and in a loop, also those that they have appended
 * themselves; strings are emptied, given out and given up. What was read decides about entries and
 * about what is sent. The first byte says what is done, the second for which key.
 */
#include <nicforge.h>

NF_PORTS(2);

struct NF_PACKED head {
    uint8_t how;
    uint8_t key;
    nf_be16 place;
    uint8_t bytes;
};

struct record {
    uint8_t b[70];
};

struct told {
    uint32_t word;
    uint32_t sum;
    uint32_t seen;
};

NF_BUF_TABLE(hash, kept, uint8_t, uint32_t, 24, 300);
NF_BUF_TABLE(lru, recent, uint8_t, uint16_t, 16, 100);

void net_recv(nf_pkt pkt)
{
    struct head head;
    struct told told = {0, 0, 0};

    if (!nf_extract(pkt, &head)) {
        nf_drop(pkt, "too short");
        return;
    }
    uint32_t place = nf_ntohs(head.place);
    if (head.how & 1) {
        /* appends */
        uint32_t count = 0;
        if (head.how & 4)
            nf_store(pkt, head.bytes, &place);
        nf_lookup(&kept, head.key, &count);
        nf_update(&kept, head.key, count + 1);
        nf_buf_append_pkt(&kept, head.key, pkt, head.bytes);
        if (head.how & 2)
            nf_buf_append(&kept, head.key, head);
        /* Also what it has just appended itself. */
        nf_buf_read(&kept, head.key, place, &told.word);
        if (nf_buf_len(&kept, head.key) >= 7)
            nf_buf_read(&kept, head.key, nf_buf_len(&kept, head.key) - 7, &told.seen);
        if (nf_buf_len(&kept, head.key) > 250)
            nf_buf_send(&kept, head.key, 1);
    } else if (head.how & 2) {
        /* reads */
        struct record record;
        nf_buf_read(&kept, head.key, place, &told.word);
        for (uint32_t at = 0; at < 8; at++) {
            uint16_t pair = 0;
            if (nf_buf_read(&kept, head.key, 3 * at, &pair))
                told.sum += pair;
        }
        if (nf_buf_read(&kept, head.key, place & 127, &record))
            told.seen = record.b[0] + 256 * record.b[69];
        /* What was read decides about the entry it was read from. */
        if ((told.word & 7) == 1)
            nf_update(&kept, head.key, told.word);
        if ((told.word & 7) == 2)
            nf_buf_clear(&kept, head.key);
        if ((told.word & 63) == 3)
            nf_delete(&kept, head.key);
    } else {
        /* Reads, and appends behind that. */
        uint16_t count = 0;
        uint8_t first = 0;
        nf_buf_read(&recent, head.key, head.bytes & 63, &first);
        told.word = first;
        nf_lookup(&recent, head.key, &count);
        nf_update(&recent, head.key, (uint16_t)(count + 1));
        if (!nf_buf_append_pkt(&recent, head.key, pkt, head.bytes & 31))
            nf_buf_clear(&recent, head.key);
        told.seen = count;
    }
    nf_host_msg(told);
    if (head.how & 32)
        nf_send(pkt, 0);
    else
        nf_drop(pkt, "told");
}
