/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * search: bytes sought in a text.
 */
#include <nicforge.h>
NF_PORTS(2);
struct text {
    uint8_t b[128];
};
static const uint8_t needle[8] = {1, 2, 3, 4, 5, 6, 7, 8};
NF_TABLE(array, hits, uint32_t, uint64_t, 128);
void net_recv(nf_pkt pkt)
{
    struct text t;
    if (!nf_load(pkt, 14, &t)) {
        nf_drop(pkt, "short");
        return;
    }
    for (uint32_t i = 0; i <= 120; i++) {
        uint32_t j;
        for (j = 0; j < 8; j++)
            if (t.b[i + j] != needle[j])
                break;
        if (j == 8) {
            nf_add_value(&hits, i, 1);
            break;
        }
    }
    nf_send(pkt, 1);
}
