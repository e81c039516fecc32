/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * sort: numbers in order.
 */
#include <nicforge.h>
NF_PORTS(2);
struct list {
    uint16_t v[16];
};
void net_recv(nf_pkt pkt)
{
    struct list l;
    if (!nf_extract(pkt, &l)) {
        nf_drop(pkt, "short");
        return;
    }
    for (uint32_t i = 0; i < 16; i++)
        for (uint32_t j = 0; j < 15 - i; j++)
            if (l.v[j] > l.v[j + 1]) {
                uint16_t t = l.v[j];
                l.v[j] = l.v[j + 1];
                l.v[j + 1] = t;
            }
    nf_emit(pkt, &l);
    nf_send(pkt, 1);
}
