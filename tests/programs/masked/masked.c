/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * masked: rows with masks say what a pair of addresses is, and again what it is the other way
 * round; a flow's entry is changed by both. All rows are compared at once, so a packet follows in
 * the next cycle.
 */
#include <nicforge.h>

NF_PORTS(2);

struct pair {
    uint32_t from, to;
};

struct rule {
    uint16_t class;
    uint8_t allow;
};

struct answer {
    uint32_t seen;
    uint16_t there, back;
};

NF_TABLE(ternary, rules, struct pair, struct rule, 20);
NF_TABLE(ternary, trusted, uint32_t, uint8_t, 2);
NF_TABLE(hash, flows, struct pair, uint32_t, 256);

void net_recv(nf_pkt pkt)
{
    struct pair pair;
    struct rule there, back;
    uint32_t seen;
    uint8_t trust;

    if (!nf_extract(pkt, &pair)) {
        nf_drop(pkt, "too short");
        return;
    }
    struct pair other = {pair.to, pair.from};
    bool found = nf_lookup(&rules, pair, &there);
    nf_lookup(&rules, other, &back);
    if (!nf_lookup(&trusted, pair.from, &trust) && !(found && there.allow)) {
        nf_drop(pkt, "not allowed");
        return;
    }
    nf_lookup(&flows, pair, &seen);
    seen = seen + 1 + there.class + trust;
    nf_update(&flows, pair, seen);
    struct answer answer = {seen, there.class, back.class};
    nf_emit(pkt, &answer);
    nf_send(pkt, back.allow & 1);
}
