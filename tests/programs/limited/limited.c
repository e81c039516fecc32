/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * limited: a flow's entry says which bucket its packets are counted in, and the bucket says what
 * becomes of the flow's entry, which counts what was refused and moves on to another bucket.
 */
#include <nicforge.h>

NF_PORTS(2);

struct NF_PACKED head {
    uint16_t flow;
    uint16_t wanted;
    uint32_t amount;
};

struct flow {
    uint16_t bucket;
    uint16_t refused;
};

NF_TABLE(hash, flows, uint16_t, struct flow, 1000);
NF_TABLE(array, buckets, uint32_t, uint32_t, 256);

void net_recv(nf_pkt pkt)
{
    struct head head;
    struct flow flow;
    uint32_t count = 0;

    if (!nf_extract(pkt, &head)) {
        nf_drop(pkt, "too short");
        return;
    }
    if (!nf_lookup(&flows, head.flow, &flow)) {
        flow.bucket = head.wanted;
        flow.refused = 0;
    }
    nf_lookup(&buckets, flow.bucket & 255, &count);
    nf_update(&buckets, flow.bucket & 255, count + 1);
    if ((count & 7) == 7) {
        flow.refused++;
        flow.bucket = (uint16_t)(flow.bucket * 5 + head.wanted);
    }
    if (flow.refused < 200)
        nf_update(&flows, head.flow, flow);
    else
        nf_delete(&flows, head.flow);
    nf_reset(pkt);
    nf_send(pkt, (count ^ flow.refused) & 1);
}
