/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * spelled: packets append words to the byte string of their flow or read them there, and the word
 * is the number of a bucket that takes several cycles to fill.
 */
#include "../bucket.h"

NF_PORTS(2);

struct NF_PACKED head {
    uint8_t how;
    uint8_t unused[3];
    uint16_t flow;
    uint16_t word;
    uint32_t amount;
};

NF_BUF_TABLE(hash, words, uint16_t, uint32_t, 1000, 64);
NF_TABLE(array, buckets, uint32_t, struct bucket, 4096);

void net_recv(nf_pkt pkt)
{
    struct head head;
    struct bucket bucket = {0, 0};
    uint32_t count = 0;

    if (!nf_extract(pkt, &head)) {
        nf_drop(pkt, "too short");
        return;
    }
    uint16_t word = head.word;
    nf_lookup(&words, head.flow, &count);
    nf_update(&words, head.flow, count + 1);
    if ((head.how & 7) == 0) {
        if (nf_buf_len(&words, head.flow) > 60)
            nf_buf_clear(&words, head.flow);
        nf_buf_append(&words, head.flow, word);
    } else if ((head.how & 7) == 1) {
        nf_buf_read(&words, head.flow, head.how >> 3, &word);
    }
    nf_lookup(&buckets, word & 4095, &bucket);
    uint32_t level = filled(&bucket, head.amount);
    nf_update(&buckets, word & 4095, bucket);
    nf_reset(pkt);
    nf_send(pkt, (level ^ count) & 1);
}
