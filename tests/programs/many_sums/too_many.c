/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * too_many: more stretches of a packet are added up at once than a device has copies of the packet
 * buffer for.
 */
#include <nicforge.h>

NF_PORTS(1);

void net_recv(nf_pkt pkt)
{
    uint32_t sum = 0;
    uint8_t step;

    if (!nf_load(pkt, 0, &step)) {
        nf_drop(pkt, "too short");
        return;
    }
    for (uint32_t at = 0; at < 64; at++)
        sum += nf_csum_payload(pkt, 0, at * step);
    for (uint32_t at = 0; at < 64; at++)
        sum += nf_csum_payload(pkt, 0, at * step + 64);
    nf_emit(pkt, &sum);
    nf_send(pkt, 0);
}
