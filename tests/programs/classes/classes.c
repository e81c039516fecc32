/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * classes: a flow's entry says which class it is in, a table of the host what a class may do and
 * which one is next, and that what becomes of the entry: lookups in tables that nothing changes lie
 * between an entry and its change.
 */
#include <nicforge.h>

NF_PORTS(2);

struct head {
    uint32_t flow;
    uint32_t amount;
};

struct flow {
    uint32_t class;
    uint32_t spent;
};

struct answer {
    uint32_t class;
    uint32_t spent;
    uint8_t found;
};

NF_TABLE(hash, flows, uint32_t, struct flow, 256);
NF_TABLE(array, limits, uint32_t, uint32_t, 8);
NF_TABLE(hash, next, uint32_t, uint32_t, 16);

void net_recv(nf_pkt pkt)
{
    struct head head;
    struct flow flow;
    uint32_t limit, after = 0;

    if (!nf_extract(pkt, &head)) {
        nf_drop(pkt, "too short");
        return;
    }
    nf_lookup(&flows, head.flow, &flow);
    nf_lookup(&limits, flow.class & 7, &limit);
    flow.spent += head.amount & 15;
    struct answer answer = {flow.class, flow.spent, 0};
    if (flow.spent > limit) {
        answer.found = nf_lookup(&next, flow.class ^ limit, &after);
        flow.class = answer.found ? after : flow.class + 1;
        flow.spent = 0;
    }
    nf_update(&flows, head.flow, flow);
    nf_emit(pkt, &answer);
    nf_send(pkt, answer.found);
}
