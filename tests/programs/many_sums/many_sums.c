/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * many_sums: twelve stretches of a packet are added up, each from and to places of its own, as many
 * as the packet says.
 */
#include <nicforge.h>

NF_PORTS(1);

struct told {
    uint32_t sums[12];
};

void net_recv(nf_pkt pkt)
{
    struct told told = {{0}};
    uint8_t count, step;

    if (!nf_load(pkt, 0, &count) || !nf_load(pkt, 1, &step)) {
        nf_drop(pkt, "too short");
        return;
    }
    for (uint32_t at = 0; at < 12; at++) {
        if (at >= count)
            break;
        told.sums[at] = nf_csum_payload(pkt, at, (at + 1) * step);
    }
    nf_emit(pkt, &told);
    nf_send(pkt, 0);
}
