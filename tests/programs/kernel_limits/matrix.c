/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * matrix: a product of matrices, three loops deep.
 */
#include <nicforge.h>
NF_PORTS(2);
struct m {
    uint32_t v[36];
};
void net_recv(nf_pkt pkt)
{
    struct m a, b, c = {0};
    if (!nf_load(pkt, 0, &a) || !nf_load(pkt, 7, &b)) {
        nf_drop(pkt, "short");
        return;
    }
    for (uint32_t i = 0; i < 6; i++)
        for (uint32_t j = 0; j < 6; j++)
            for (uint32_t k = 0; k < 6; k++)
                c.v[i * 6 + j] += a.v[i * 6 + k] * b.v[k * 6 + j];
    nf_emit(pkt, &c);
    nf_send(pkt, 1);
}
