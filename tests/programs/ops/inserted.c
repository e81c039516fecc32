/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * inserted: packets, messages of the host and a timer put entries into one small table, packets and
 * messages several at once and the same ones; some are refused.
 *
 * Lacked by: pspin
 */
#include <nicforge.h>

NF_PORTS(2);

struct ask {
    uint32_t key;
    uint32_t amount;
};

NF_TABLE(hash, small, uint32_t, uint32_t, 5);

void net_recv(nf_pkt pkt)
{
    struct ask ask;
    uint32_t found;

    if (!nf_extract(pkt, &ask)) {
        nf_drop(pkt, "short");
        return;
    }
    if (!nf_contains(&small, 0)) {
        nf_drop(pkt, "not yet");
        return;
    }
    bool room = nf_update(&small, ask.key & 7, ask.amount);
    if (!nf_lookup(&small, 0, &found)) {
        nf_pass(pkt);
        return;
    }
    ask.amount = found + room;
    nf_emit(pkt, &ask);
    nf_send(pkt, found & 1);
}

void host_send(struct ask ask)
{
    nf_add_value(&small, ask.key & 3, ask.amount);
    if (!nf_update(&small, (ask.key + 1) & 7, ask.amount))
        nf_delete(&small, ask.key & 3);
}

NF_TIMER(NF_US(343))
void grow(void) { nf_add_value(&small, 0, 140); }
