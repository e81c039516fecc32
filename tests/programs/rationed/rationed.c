/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * rationed: some packets share one bucket, which takes several cycles to fill, and some each their
 * flow's; others look what is in it, or ask for none.
 */
#include "../bucket.h"

NF_PORTS(2);

struct NF_PACKED head {
    uint16_t how;
    uint16_t flow;
    uint32_t amount;
};

NF_TABLE(array, shared, uint32_t, struct bucket, 1);
NF_TABLE(hash, flows, uint16_t, struct bucket, 1000);

void net_recv(nf_pkt pkt)
{
    struct head head;
    struct bucket bucket = {0, 0};
    uint32_t level = 0;

    if (!nf_extract(pkt, &head)) {
        nf_drop(pkt, "too short");
        return;
    }
    if (head.how == 1) {
        nf_lookup(&shared, 0, &bucket);
        level = filled(&bucket, head.amount);
        nf_update(&shared, 0, bucket);
    } else if (head.how == 2) {
        nf_lookup(&flows, head.flow, &bucket);
        level = filled(&bucket, head.amount);
        nf_update(&flows, head.flow, bucket);
    } else if (head.how == 3) {
        nf_lookup(&flows, head.flow, &bucket);
        level = bucket.level ^ bucket.last;
    }
    nf_reset(pkt);
    nf_send(pkt, level & 1);
}
