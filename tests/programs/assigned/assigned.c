/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * assigned: a table that packets change says what the key of another one is: a flow is given a
 * bucket when it is new or asks for another one, and what lies in the bucket takes several cycles
 * to decide.
 */
#include "../bucket.h"

NF_PORTS(2);

struct NF_PACKED head {
    uint16_t flow;
    uint8_t how;
    uint8_t bucket;
    uint32_t amount;
};

struct flow {
    uint8_t bucket;
    uint8_t asked;
};

NF_TABLE(hash, flows, uint16_t, struct flow, 200);
NF_TABLE(array, buckets, uint32_t, struct bucket, 256);

void net_recv(nf_pkt pkt)
{
    struct head head;
    struct flow flow;
    struct bucket bucket = {0, 0};

    if (!nf_extract(pkt, &head)) {
        nf_drop(pkt, "too short");
        return;
    }
    bool known = nf_lookup(&flows, head.flow, &flow);
    if (!known || head.how == 1) {
        flow.bucket = head.bucket;
        flow.asked = head.how;
        if (!nf_update(&flows, head.flow, flow))
            flow.bucket = 255;
    } else if (head.how == 2) {
        nf_delete(&flows, head.flow);
    }
    nf_lookup(&buckets, flow.bucket, &bucket);
    uint32_t level = filled(&bucket, head.amount);
    nf_update(&buckets, flow.bucket, bucket);
    nf_reset(pkt);
    nf_send(pkt, (level ^ flow.asked) & 1);
}
