/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * bigarray: a histogram in local arrays of 256 bytes each.
 */
#include <nicforge.h>
NF_PORTS(2);
struct block {
    uint8_t b[256];
};
struct sums {
    uint32_t v[64];
};
NF_TABLE(array, totals, uint32_t, struct sums, 4);
void net_recv(nf_pkt pkt)
{
    struct block x;
    struct sums s = {0}, t;
    if (!nf_load(pkt, 0, &x)) {
        nf_drop(pkt, "short");
        return;
    }
    for (uint32_t i = 0; i < 256; i++)
        s.v[x.b[i] & 63] += i;
    if (nf_lookup(&totals, 1, &t)) {
        for (uint32_t i = 0; i < 64; i++)
            t.v[i] += s.v[i];
        nf_update(&totals, 1, t);
    }
    nf_emit(pkt, &s.v[3]);
    nf_send(pkt, 1);
}
