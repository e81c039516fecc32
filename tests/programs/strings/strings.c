/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * strings: byte strings of a hash table and of an LRU table that are appended to, twice by some
 * packets, from any place in the frame to any place in the string, and emptied, measured, given out
 * and given up; entries come, go and are evicted. The first byte says what is done, the second for
 * which key.
 */
#include <nicforge.h>

NF_PORTS(2);

struct NF_PACKED head {
    uint8_t how;
    uint8_t key;
    uint8_t skipped;
    uint8_t twice;
    nf_be16 bytes;
};

struct told {
    uint32_t length;
    uint32_t count;
};

NF_BUF_TABLE(hash, kept, uint8_t, uint32_t, 24, 700);
NF_BUF_TABLE(lru, recent, uint8_t, uint16_t, 16, 200);

void net_recv(nf_pkt pkt)
{
    struct head head;

    if (!nf_extract(pkt, &head)) {
        nf_drop(pkt, "too short");
        return;
    }
    uint32_t bytes = nf_ntohs(head.bytes);
    struct told told = {0, 0};
    if (head.how & 1)
        nf_strip(pkt, head.skipped);
    if (head.how & 2) {
        nf_lookup(&kept, head.key, &told.count);
        if (!nf_update(&kept, head.key, told.count + 1))
            told.count += 1000;
        if (head.how & 4)
            nf_buf_clear(&kept, head.key);
        if (!nf_buf_append_pkt(&kept, head.key, pkt, bytes))
            told.count += 2000;
        if ((head.twice & 3) == 0 && nf_buf_append_pkt(&kept, head.key, pkt, head.twice))
            told.count += 4000;
        told.length = nf_buf_len(&kept, head.key);
        if (told.length > 300 || (head.how & 24) == 24)
            nf_buf_to_host(&kept, head.key);
        if ((head.how & 24) == 16)
            nf_delete(&kept, head.key);
    } else {
        uint16_t count = 0;
        nf_lookup(&recent, head.key, &count);
        count++;
        nf_update(&recent, head.key, count);
        nf_buf_append_pkt(&recent, head.key, pkt, bytes);
        told.length = nf_buf_len(&recent, head.key);
        if (head.how & 8)
            nf_buf_send(&recent, head.key, head.how >> 7);
    }
    nf_host_msg(told);
    if (head.how & 32)
        nf_send(pkt, 0);
    else
        nf_drop(pkt, "told");
}
