/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * recents: a packet uses, changes and makes up to three entries of one LRU table, which may be the
 * same one; each new one may take the place of another.
 */
#include <nicforge.h>

NF_PORTS(2);

struct head {
    uint16_t a, b, c;
    uint8_t what, amount;
};

struct answer {
    uint32_t a, b, c;
    uint8_t gone, seen;
};

NF_TABLE(lru, recent, uint16_t, uint32_t, 32);

void net_recv(nf_pkt pkt)
{
    struct head head;
    struct answer answer = {0};
    if (!nf_extract(pkt, &head)) {
        nf_drop(pkt, "too short");
        return;
    }
    nf_lookup(&recent, head.a, &answer.a);
    if (head.what & 1)
        nf_update(&recent, head.a, answer.a + head.amount);
    if (head.what & 2) {
        nf_lookup(&recent, head.b, &answer.b);
        nf_update(&recent, head.b, answer.b + answer.a + 1);
    } else if (head.what & 4) {
        answer.gone = nf_delete(&recent, head.b);
    }
    answer.seen = nf_contains(&recent, head.c);
    if (head.what & 8)
        nf_add_value(&recent, head.c, 5);
    if (head.what & 16)
        nf_lookup(&recent, head.a, &answer.c);
    nf_emit(pkt, &answer);
    nf_send(pkt, head.what >> 7);
}
