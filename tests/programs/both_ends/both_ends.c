/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * both_ends: a packet counts at both its ends, two entries of one hash table with byte strings,
 * which may be the same one; some append a word to either string, or read one, and entries come and
 * go.
 */
#include <nicforge.h>

NF_PORTS(2);

struct NF_PACKED head {
    uint8_t how, place;
    uint16_t from, to;
};

NF_BUF_TABLE(hash, words, uint16_t, uint32_t, 1000, 64);

void net_recv(nf_pkt pkt)
{
    struct head head;

    if (!nf_extract(pkt, &head)) {
        nf_drop(pkt, "too short");
        return;
    }
    uint32_t sent = 0, received = 0, word = 0;
    uint8_t made = 0;
    nf_lookup(&words, head.from, &sent);
    made = nf_update(&words, head.from, sent + 1);
    if (head.how & 1) {
        if (nf_buf_len(&words, head.from) > 60)
            nf_buf_clear(&words, head.from);
        made += nf_buf_append(&words, head.from, sent);
    }
    if (head.how & 2)
        nf_delete(&words, head.from);
    nf_lookup(&words, head.to, &received);
    made += nf_update(&words, head.to, received + 2);
    if (head.how & 4)
        made += nf_buf_append(&words, head.to, head);
    else if (head.how & 8)
        nf_buf_read(&words, head.to, head.place, &word);
    if (head.how & 16)
        nf_delete(&words, head.to);
    nf_reset(pkt);
    nf_send(pkt, (word + made + sent + received) & 1);
}
