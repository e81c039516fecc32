/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * slot_counts: packets are counted in the slot that another table gives their source. Nothing in a
 * packet says which slot that is, so it cannot be steered by it; but a handler uses one slot only,
 * and replicas lock slots one by one.
 */
#include <nicforge.h>

NF_PORTS(1);

struct slot {
    uint64_t packets;
    uint64_t sums;
};

NF_TABLE(hash, owners, uint32_t, uint32_t, 4096);
NF_TABLE(array, slots, uint32_t, struct slot, 256);

NF_UNORDERED
void net_recv(nf_pkt pkt)
{
    uint32_t src;
    uint32_t index;
    struct slot slot;

    if (!nf_extract(pkt, &src)) {
        nf_drop(pkt, "no source");
        return;
    }
    nf_lookup(&owners, src, &index);
    index &= 255;
    nf_lookup(&slots, index, &slot);
    slot.packets++;
    slot.sums += nf_csum_payload(pkt, 0, 1500);
    nf_update(&slots, index, slot);
    nf_reset(pkt);
    nf_send(pkt, 0);
}
