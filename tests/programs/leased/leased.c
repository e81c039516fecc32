/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * leased: an LRU table gives flows numbers of buckets, which take several cycles to fill.
 */
#include "../bucket.h"

NF_PORTS(2);

struct NF_PACKED head {
    uint16_t flow;
    uint16_t wanted;
    uint32_t amount;
};

NF_TABLE(lru, leases, uint16_t, uint16_t, 64);
NF_TABLE(array, buckets, uint32_t, struct bucket, 4096);

void net_recv(nf_pkt pkt)
{
    struct head head;
    struct bucket bucket = {0, 0};
    uint16_t number = 0;

    if (!nf_extract(pkt, &head)) {
        nf_drop(pkt, "too short");
        return;
    }
    if (!nf_lookup(&leases, head.flow, &number)) {
        number = head.wanted;
        nf_update(&leases, head.flow, number);
    }
    nf_lookup(&buckets, number & 4095, &bucket);
    uint32_t level = filled(&bucket, head.amount);
    nf_update(&buckets, number & 4095, bucket);
    nf_reset(pkt);
    nf_send(pkt, level & 1);
}
