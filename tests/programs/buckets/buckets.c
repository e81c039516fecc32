/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * buckets: two handlers share tables of buckets and of places in them, each with an event of its
 * own. Whoever has a bucket has all of its places, so replicas can have buckets of their own.
 * Updates are read, computed and written back: one that two replicas made in different copies would
 * be seen.
 */
#include <nicforge.h>

#define BUCKETS 100
#define WAYS 5

NF_PORTS(1);

struct key {
    uint32_t flow;
    uint16_t part;
};

struct head {
    uint32_t reads;
    uint32_t writes;
};

NF_TABLE(array, heads, uint32_t, struct head, BUCKETS);
NF_TABLE(array, places, uint32_t, uint64_t, 500);

void write(nf_pkt pkt, struct key key, uint32_t amount);
void read(nf_pkt pkt, uint32_t number, struct key key);
void total(uint32_t bucket);

void net_recv(nf_pkt pkt)
{
    struct key key;
    uint32_t amount;

    if (!nf_extract(pkt, &key) || !nf_extract(pkt, &amount)) {
        nf_drop(pkt, "no key");
        return;
    }
    nf_reset(pkt);
    if (amount & 1)
        nf_enqueue(write, pkt, key, amount);
    else if (amount & 2)
        nf_enqueue(read, pkt, amount, key);
    else {
        nf_enqueue(total, amount >> 2);
        nf_send(pkt, 0);
    }
}

NF_UNORDERED
void write(nf_pkt pkt, struct key key, uint32_t amount)
{
    uint32_t bucket = nf_hash(0, key) % BUCKETS, place = bucket * WAYS + key.part % WAYS;
    struct head head;
    uint64_t sum;

    nf_lookup(&heads, bucket, &head);
    head.writes++;
    nf_update(&heads, bucket, head);
    nf_lookup(&places, place, &sum);
    nf_update(&places, place, sum + amount);
    nf_send(pkt, 0);
}

NF_UNORDERED
void read(nf_pkt pkt, uint32_t number, struct key key)
{
    uint32_t bucket = nf_hash(0, key) % BUCKETS;
    struct head head;

    nf_lookup(&heads, bucket, &head);
    head.reads++;
    nf_update(&heads, bucket, head);
    nf_send(pkt, 0);
}

NF_UNORDERED
void total(uint32_t bucket)
{
    bucket = bucket % BUCKETS;
    uint64_t first, last;
    nf_lookup(&places, bucket * WAYS, &first);
    nf_lookup(&places, bucket * WAYS + (WAYS - 1), &last);
    nf_update(&places, bucket * WAYS, first + 1);
    nf_update(&places, bucket * WAYS + (WAYS - 1), last + 1);
}
