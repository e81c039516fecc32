/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * searched: the least entry of tables whose numbers are signed, unsigned, of each size, in the
 * midst of a value, or the value itself; many are equal, so keys decide.
 */
#include <nicforge.h>

NF_PORTS(2);

struct head {
    uint16_t a;
    uint8_t b;
    int16_t score;
} __attribute__((packed));
struct key {
    uint16_t a;
    uint8_t b;
};
struct value {
    int16_t score;
    uint8_t word[4];
    uint32_t seen;
    int64_t sum;
};
struct found {
    struct key low, small, few, poor;
    struct value value;
    uint8_t number;
    int32_t lowest;
    bool any, left;
} __attribute__((packed));

NF_TABLE(hash, scores, struct key, struct value, 24);
NF_TABLE(hash, bytes, uint8_t, int32_t, 8);

void net_recv(nf_pkt pkt)
{
    struct head head;
    struct value value;
    struct found found = {0};
    if (!nf_extract(pkt, &head)) {
        nf_drop(pkt, "short");
        return;
    }
    struct key key = {head.a & 31, head.b & 1};
    nf_lookup(&scores, key, &value);
    value.score = (int16_t)(head.score / 64 * 64);
    value.word[2] = head.b >> 5;
    value.seen++;
    value.sum -= head.score;
    bool full = !nf_update(&scores, key, value);
    nf_least(&scores, word[2], &found.small, &value);
    nf_least(&scores, seen, &found.few, &value);
    nf_least(&scores, sum, &found.poor, &value);
    found.any = nf_least(&scores, score, &found.low, &found.value);
    if (full || (head.b & 3) == 0)
        nf_delete(&scores, found.low);
    if (!nf_update(&bytes, head.b, (int32_t)head.score * head.a)) {
        found.left = nf_least_value(&bytes, &found.number, &found.lowest);
        nf_delete(&bytes, found.number);
    }
    nf_emit(pkt, &found);
    nf_send(pkt, 1);
}
