/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * pairs: a packet changes two entries of one hash table, both of them at once: entries come and go,
 * the two may be the same one, and the second finds what the first has become. Packets of other
 * rows do not wait.
 */
#include <nicforge.h>

NF_PORTS(2);

struct head {
    uint16_t a, b;
    uint8_t what, amount;
};

struct entry {
    uint16_t count, last;
};

struct answer {
    uint16_t a, b, last;
    uint8_t made, changed, gone, there;
};

NF_TABLE(hash, pairs, uint16_t, struct entry, 1100);

void net_recv(nf_pkt pkt)
{
    struct head head;
    struct entry a, b;
    struct answer answer = {0};
    if (!nf_extract(pkt, &head)) {
        nf_drop(pkt, "too short");
        return;
    }
    if (nf_lookup(&pairs, head.a, &a) && (head.what & 1)) {
        answer.gone = nf_delete(&pairs, head.a);
    } else if (head.what & 2) {
        a.count += head.amount;
        a.last = head.b;
        answer.made = nf_update(&pairs, head.a, a);
    }
    if (nf_lookup(&pairs, head.b, &b)) {
        if (head.what & 4)
            answer.gone += nf_delete(&pairs, head.b);
        else {
            b.last = head.a;
            answer.changed = nf_update(&pairs, head.b, b);
        }
    } else if (head.what & 8) {
        b.count = a.count + 1;
        answer.changed = nf_update(&pairs, head.b, b);
    }
    answer.a = a.count;
    answer.b = b.count;
    answer.last = b.last;
    answer.there = nf_contains(&pairs, head.b);
    nf_emit(pkt, &answer);
    nf_send(pkt, a.count & 1);
}
