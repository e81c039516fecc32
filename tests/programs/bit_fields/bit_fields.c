/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * bit_fields: entries of which one bit-field changes, comparisons with one outcome, a constant that
 * nothing needs: what C compilers remark on, or would refuse if it were printed carelessly.
 */
#include <nicforge.h>

NF_PORTS(2);
static const uint32_t seed[4] = {1, 2, 3, 4};
struct v {
    uint32_t a : 8, b : 24;
};
struct h {
    uint8_t version : 4;
    uint8_t b;
    struct v v;
    int16_t s : 5;
};
NF_TABLE(array, values, uint32_t, struct v, 16);
NF_TABLE(hash, heads, struct h, struct h, 1024);
static bool odd(uint32_t x) { return (x & 0xf0) == 0x0f; }
void net_recv(nf_pkt pkt)
{
    struct h h, o;
    struct v v;
    uint8_t n;
    if (!nf_extract(pkt, &h)) {
        nf_drop(pkt, "short");
        return;
    }
    n = h.b;
    if (nf_lookup(&values, n & 7, &v)) {
        v.a += 3;
        nf_update(&values, n & 7, v);
    }
    if (nf_lookup(&heads, h, &o)) {
        o.version++;
        o.s -= 2;
        nf_update(&heads, h, o);
    } else
        nf_update(&heads, h, h);
    if (odd(n) && seed[n & 3] == 77)
        h.b = 1;
    h.v.b = v.a;
    nf_emit(pkt, &h);
    nf_send(pkt, (n & 1) != 4);
}
