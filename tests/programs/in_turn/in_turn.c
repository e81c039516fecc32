/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * in_turn: a packet changes several entries of one array, whose numbers it says and which may be
 * the same: each finds what was changed before it. Which ones, and how often, depends on the packet
 * and on what they say.
 */
#include <nicforge.h>

NF_PORTS(2);

struct head {
    uint8_t what;
    uint8_t from, to, over;
};

struct account {
    uint32_t amount;
    uint16_t moved;
};

struct answer {
    uint32_t from, to, over;
    uint16_t moved;
    uint8_t first, second, third;
    uint32_t pair;
};

NF_TABLE(array, accounts, uint32_t, struct account, 16);
NF_TABLE(hash, pairs, uint8_t, uint32_t, 20);
NF_TABLE(array, sums, uint32_t, uint32_t, 1);

void net_recv(nf_pkt pkt)
{
    struct head head;
    struct account from, to, over = {0}, again;
    uint32_t seen;

    if (!nf_extract(pkt, &head)) {
        nf_drop(pkt, "too short");
        return;
    }
    /* Numbers beyond the array are there too. */
    nf_lookup(&accounts, head.from & 31, &from);
    from.amount += head.what;
    from.moved++;
    nf_update(&accounts, head.from & 31, from);
    nf_lookup(&accounts, head.to & 15, &to);
    if (head.what & 1) {
        to.amount += from.amount / 2;
        nf_update(&accounts, head.to & 15, to);
        if (head.what & 2)
            nf_update(&accounts, head.from & 31, (struct account){0});
        else
            nf_lookup(&accounts, head.over & 15, &over);
    } else if (from.amount > to.amount) {
        nf_lookup(&accounts, head.over & 15, &over);
        over.moved += to.moved;
        nf_update(&accounts, head.over & 15, over);
        to.amount = over.amount;
        nf_update(&accounts, head.to & 15, to);
    }
    nf_lookup(&accounts, head.from & 31, &again);
    nf_lookup(&sums, 0, &seen);
    seen += again.amount;
    nf_update(&sums, 0, seen);
    /* Entries that come and go, in a table that is often full. */
    uint32_t one, other, pair = 0;
    struct answer answer = {again.amount, to.amount, over.amount ^ seen, again.moved};
    nf_lookup(&pairs, head.from, &one);
    answer.first = nf_update(&pairs, head.from, one + 1);
    if (head.what & 4)
        nf_delete(&pairs, head.to);
    nf_lookup(&pairs, head.over, &other);
    answer.second = nf_update(&pairs, head.over, other + one);
    if (head.what & 8) {
        answer.third = nf_update(&pairs, head.from, other + 3);
        nf_add_value(&pairs, head.to, 5);
    }
    nf_lookup(&pairs, head.to, &pair);
    answer.pair = pair;
    nf_emit(pkt, &answer);
    nf_send(pkt, to.amount & 1);
}
