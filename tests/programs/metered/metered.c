/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * metered: what a table that only the host fills, and a byte far behind in the frame, say of a
 * packet is the key of others that packets change: a token bucket for each class, which takes
 * several cycles to decide, and a count.
 */
#include <nicforge.h>

NF_PORTS(2);

struct NF_PACKED head {
    nf_be16 flow;
    nf_be16 place;
    uint32_t time;
    uint8_t unused[20];
    uint16_t skipped;
};

struct class
{
    uint32_t number;
    uint32_t rate;
};

struct bucket {
    uint32_t level;
    uint32_t last;
};

NF_TABLE(hash, classes, uint16_t, struct class, 64);
NF_TABLE(array, buckets, uint32_t, struct bucket, 64);
NF_TABLE(hash, sums, uint8_t, uint32_t, 100);

void net_recv(nf_pkt pkt)
{
    struct head head;
    struct class class = {63, 3};
    struct bucket bucket = {0, 0};
    uint8_t mark = 0;

    if (!nf_extract(pkt, &head)) {
        nf_drop(pkt, "too short");
        return;
    }
    nf_lookup(&classes, nf_ntohs(head.flow), &class);
    nf_load(pkt, nf_ntohs(head.place), &mark);
    nf_lookup(&buckets, class.number & 63, &bucket);
    uint32_t level = bucket.level + (head.time - bucket.last) * class.rate;
    if (level > 100000)
        level = 100000;
    bool fits = level >= 3 * (uint32_t)nf_len(pkt);
    if (fits)
        level -= 3 * (uint32_t)nf_len(pkt);
    bucket.level = level;
    bucket.last = head.time;
    nf_update(&buckets, class.number & 63, bucket);
    uint32_t sum = 1;
    if (nf_lookup(&sums, mark, &sum))
        sum = sum * 3 + head.time;
    nf_update(&sums, mark, sum);
    nf_reset(pkt);
    nf_send(pkt, (fits ^ sum) & 1);
}
