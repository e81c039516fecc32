/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * chained: what is left in a flow's bucket says its class, what is left in the class's says a
 * meter, and each of the three takes several cycles to decide.
 */
#include "../bucket.h"

NF_PORTS(2);

struct NF_PACKED head {
    uint16_t flow;
    uint16_t how;
    uint32_t amount;
};

NF_TABLE(hash, flows, uint16_t, struct bucket, 1000);
NF_TABLE(array, classes, uint32_t, struct bucket, 4096);
NF_TABLE(hash, meters, uint16_t, struct bucket, 1000);

void net_recv(nf_pkt pkt)
{
    struct head head;
    struct bucket flow = {0, 0}, class = {0, 0}, meter = {0, 0};

    if (!nf_extract(pkt, &head)) {
        nf_drop(pkt, "too short");
        return;
    }
    nf_lookup(&flows, head.flow, &flow);
    uint32_t number = (filled(&flow, head.amount) ^ head.how) & 4095;
    if (head.how == 9)
        nf_delete(&flows, head.flow);
    else
        nf_update(&flows, head.flow, flow);
    nf_lookup(&classes, number, &class);
    uint16_t of = (filled(&class, head.amount + flow.level) ^ head.flow) & 0x3ff;
    nf_update(&classes, number, class);
    nf_lookup(&meters, of, &meter);
    uint32_t left = filled(&meter, class.level);
    if (!nf_update(&meters, of, meter))
        left = 1;
    nf_reset(pkt);
    nf_send(pkt, (left ^ head.how) & 1);
}
