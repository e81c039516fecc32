/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * crcs: a checksum bit by bit: 512 trips with a branch each.
 */
#include <nicforge.h>
NF_PORTS(2);
struct data {
    uint8_t b[64];
};
void net_recv(nf_pkt pkt)
{
    struct data d;
    uint32_t crc = 0xffffffff;
    if (!nf_load(pkt, 0, &d)) {
        nf_drop(pkt, "short");
        return;
    }
    for (uint32_t i = 0; i < 64; i++) {
        crc ^= d.b[i];
        for (uint32_t k = 0; k < 8; k++) {
            if (crc & 1)
                crc = (crc >> 1) ^ 0xedb88320;
            else
                crc >>= 1;
        }
    }
    nf_emit(pkt, &crc);
    nf_send(pkt, 1);
}
