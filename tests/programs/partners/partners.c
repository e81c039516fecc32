/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * partners: what two entries of an LRU table, asked for in turn, say is the number of a bucket that
 * takes several cycles to fill, and what is in it is kept in two entries of another one.
 */
#include <nicforge.h>

NF_PORTS(2);

struct NF_PACKED head {
    uint16_t a;
    uint16_t b;
    uint32_t amount;
};

struct bucket {
    uint32_t level;
    uint32_t last;
};

NF_TABLE(lru, recent, uint16_t, uint32_t, 64);
NF_TABLE(array, buckets, uint32_t, struct bucket, 4096);
NF_TABLE(lru, kept, uint16_t, uint32_t, 64);

void net_recv(nf_pkt pkt)
{
    struct head head;
    struct bucket bucket = {0, 0};
    uint32_t first = 0, second = 0;

    if (!nf_extract(pkt, &head)) {
        nf_drop(pkt, "too short");
        return;
    }
    nf_lookup(&recent, head.a, &first);
    nf_update(&recent, head.a, first + head.amount);
    nf_lookup(&recent, head.b, &second);
    nf_update(&recent, head.b, second ^ first);
    uint32_t number = (first ^ second) & 4095;
    nf_lookup(&buckets, number, &bucket);
    uint32_t level = bucket.level + (head.amount - bucket.last) * 3 / 7;
    if (level > 100000)
        level = level - 100000;
    bucket.level = level;
    bucket.last = head.amount;
    nf_update(&buckets, number, bucket);
    nf_lookup(&kept, head.a, &first);
    nf_update(&kept, head.a, first ^ level);
    nf_lookup(&kept, head.b, &second);
    nf_update(&kept, head.b, second + first);
    nf_reset(pkt);
    nf_send(pkt, (level ^ second) & 1);
}
