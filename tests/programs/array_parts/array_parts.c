/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * array_parts: entries of one array that are never the same, since their numbers lie apart, are
 * changed by one packet; some beyond the array's end, some never asked for. What the first counts
 * choose is counted in a table of its own, and what that says in a third one.
 */
#include <nicforge.h>

NF_PORTS(1);

struct head {
    uint32_t a;
    uint32_t b;
};

struct answer {
    uint32_t counts[4];
    uint32_t class;
    uint32_t seen;
    uint32_t total;
};

NF_TABLE(array, counts, uint32_t, uint32_t, 500);
NF_TABLE(hash, classes, uint32_t, uint32_t, 64);
NF_TABLE(array, limits, uint32_t, uint32_t, 16);
NF_TABLE(lru, totals, uint32_t, uint32_t, 64);

void net_recv(nf_pkt pkt)
{
    struct head head;
    struct answer answer = {0};

    if (!nf_extract(pkt, &head)) {
        nf_drop(pkt, "too short");
        return;
    }
    uint32_t low = head.a % 100, shifted = 128 + (head.a >> 27 << 1), masked = 200 | (head.b & 7);
    uint32_t high = (head.b & 1) ? 300 + head.b % 150 : 450 + (head.a & 63);
    nf_add_value(&counts, low, 1);
    nf_lookup(&counts, low, &answer.counts[0]);
    nf_add_value(&counts, shifted, head.a & 3);
    nf_lookup(&counts, shifted, &answer.counts[1]);
    if (head.b & 16)
        nf_update(&counts, masked, head.b);
    else
        nf_or_value(&counts, masked, 32);
    nf_lookup(&counts, masked, &answer.counts[2]);
    nf_max_value(&counts, high, head.b);
    nf_lookup(&counts, high, &answer.counts[3]);

    /* How often the first one was counted chooses an entry, and that one's count another. */
    uint32_t class = answer.counts[0] & 7;
    nf_lookup(&classes, class, &answer.class);
    nf_update(&classes, class, answer.class + 1);
    uint32_t limit;
    nf_lookup(&limits, answer.class & 15, &limit);
    uint32_t total = (answer.class & 3) + limit;
    nf_lookup(&totals, total, &answer.seen);
    nf_update(&totals, total, answer.seen + answer.counts[1]);
    nf_emit(pkt, &answer);
    nf_send(pkt, 0);
}
