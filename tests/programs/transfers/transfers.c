/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * transfers: a packet changes three entries of one array, all of them at once: any two may be the
 * same one, and each finds what was changed before it. Packets of other entries do not wait.
 */
#include <nicforge.h>

NF_PORTS(2);

struct head {
    uint16_t from, to, fees;
    uint8_t what, amount;
};

struct account {
    uint32_t amount;
    uint16_t moved;
};

struct answer {
    uint32_t from, to, fees;
    uint16_t moved;
};

NF_TABLE(array, accounts, uint32_t, struct account, 1000);

void net_recv(nf_pkt pkt)
{
    struct head head;
    struct account from, to, fees = {0};
    if (!nf_extract(pkt, &head)) {
        nf_drop(pkt, "too short");
        return;
    }
    /* Numbers beyond the array are there too. */
    nf_lookup(&accounts, head.from & 1023, &from);
    uint32_t moves = head.amount;
    if (head.what & 1 && from.amount < moves)
        moves = from.amount;
    from.amount -= moves;
    from.moved++;
    nf_update(&accounts, head.from & 1023, from);
    nf_lookup(&accounts, head.to, &to);
    if (head.what & 2)
        nf_update(&accounts, head.to, (struct account){0});
    else {
        to.amount += moves;
        to.moved += from.moved;
        nf_update(&accounts, head.to, to);
    }
    if (head.what & 4) {
        nf_lookup(&accounts, head.fees, &fees);
        fees.amount += to.amount & 15;
        nf_update(&accounts, head.fees, fees);
    }
    struct answer answer = {from.amount, to.amount, fees.amount, fees.moved};
    nf_emit(pkt, &answer);
    nf_send(pkt, to.amount & 1);
}
