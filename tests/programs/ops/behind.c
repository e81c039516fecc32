/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * behind: events that are enqueued long before their handler ends, on some of its paths; what runs
 * behind them changes the tables that they read, and their packets leave behind its own.
 */
#include <nicforge.h>

NF_PORTS(2);

struct ask {
    uint32_t key;
    uint32_t amount;
};

NF_TABLE(array, sums, uint32_t, uint64_t, 8);
NF_TABLE(array, last, uint32_t, struct ask, 2);

void note(struct ask ask);
void reply(nf_pkt pkt, uint32_t key, uint32_t times);

void net_recv(nf_pkt pkt)
{
    struct ask ask, before = {};
    uint32_t place = 0;

    if (!nf_extract(pkt, &ask)) {
        nf_drop(pkt, "short");
        return;
    }
    nf_lookup(&last, 0, &before);
    if (ask.amount & 1) {
        if (ask.amount & 2) {
            nf_enqueue(reply, pkt, ask.key & 7, 3);
            if (ask.amount & 4) {
                nf_update(&sums, ask.key & 7, before.key);
                return;
            }
            place = before.amount & 7;
        } else {
            nf_enqueue(note, ask);
            nf_emit(pkt, &before);
            nf_send(pkt, 1);
        }
        nf_update(&last, 0, ask);
    } else {
        nf_emit(pkt, &ask);
        nf_send(nf_clone(pkt), 0);
        nf_drop(pkt, "copied");
        place = 7;
    }
    nf_update(&sums, place, ask.amount);
}

void note(struct ask ask)
{
    uint64_t sum = 0;

    nf_lookup(&sums, ask.key & 7, &sum);
    nf_update(&sums, 0, 2 * sum + ask.amount);
}

void reply(nf_pkt pkt, uint32_t key, uint32_t times)
{
    uint64_t sum = 0;

    nf_lookup(&sums, key, &sum);
    sum = times * sum + 1;
    nf_update(&sums, 1, sum);
    nf_emit(pkt, &sum);
    nf_send(pkt, sum & 1);
}
