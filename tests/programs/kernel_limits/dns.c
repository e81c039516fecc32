/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * dns: a name of labels, byte by byte.
 */
#include <nicforge.h>
NF_PORTS(2);
struct label {
    uint8_t length;
};
struct name {
    uint8_t b[64];
};
NF_TABLE(hash, names, struct name, uint32_t, 128);
void net_recv(nf_pkt pkt)
{
    struct name n = {0};
    struct label c;
    uint32_t at = 54, out = 0, left = 0;
    for (uint32_t i = 0; i < 64; i++) {
        if (!nf_load(pkt, at, &c))
            break;
        at++;
        if (left == 0) {
            if (c.length == 0)
                break;
            if (c.length > 63) {
                nf_drop(pkt, "pointer");
                return;
            }
            left = c.length;
            n.b[out & 63] = '.';
        } else {
            left--;
            n.b[out & 63] = c.length >= 'A' && c.length <= 'Z' ? c.length + 32 : c.length;
        }
        out++;
    }
    nf_add_value(&names, n, 1);
    nf_send(pkt, 1);
}
