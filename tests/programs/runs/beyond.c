/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * Bytes beyond the end of an array, which are zero here. In C nobody knows what they are.
 */
#include <nicforge.h>

NF_PORTS(1);

struct asked {
    uint8_t count;
    uint8_t value[20];
};

void net_recv(nf_pkt pkt)
{
    struct asked asked;
    if (!nf_extract(pkt, &asked)) {
        nf_drop(pkt, "short");
        return;
    }
    uint32_t count = asked.count;
    nf_emit(pkt, &asked.count);
    for (uint32_t i = 0; i < 24 && i != count; i++)
        nf_emit(pkt, &asked.value[i]);
    nf_send(pkt, 0);
}
