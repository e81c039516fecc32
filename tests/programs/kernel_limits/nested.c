/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * nested: bytes of a header at computed places, in two loops.
 */
#include <nicforge.h>
NF_PORTS(1);
struct d {
    uint8_t b[64];
};
void net_recv(nf_pkt pkt)
{
    struct d d;
    uint32_t n = 0;
    if (!nf_load(pkt, 0, &d)) {
        nf_drop(pkt, "short");
        return;
    }
    for (uint32_t i = 0; i < 20; i++)
        for (uint32_t j = 0; j < 30; j++)
            if (d.b[(i + n) & 63] > d.b[j & 63])
                n += d.b[i & 63] ^ j;
    nf_emit(pkt, &n);
    nf_send(pkt, 0);
}
