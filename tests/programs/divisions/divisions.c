/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * divisions: a packet's numbers divided by constants and by each other, with and without signs, and
 * by zero.
 */
#include <nicforge.h>

NF_PORTS(1);

struct numbers {
    uint32_t a;
    uint32_t b;
    uint16_t c;
    uint16_t d;
};

struct results {
    uint32_t by_small[2];
    uint32_t by_large[2];
    uint32_t by_all[2];
    uint16_t of_16[4];
    int32_t with_sign[4];
    int32_t by_negative[2];
    int32_t signed_by_each_other[2];
};

void net_recv(nf_pkt pkt)
{
    struct numbers n;
    struct results r = {0};
    if (!nf_extract(pkt, &n)) {
        nf_drop(pkt, "no numbers");
        return;
    }
    int32_t s = (int32_t)n.a;
    int32_t t = (int32_t)n.b;
    r.by_small[0] = n.a / 3;
    r.by_small[1] = n.a % 7;
    r.by_large[0] = n.a / 64512;
    r.by_large[1] = n.a % 4294967291u;
    r.by_all[0] = n.a / 1;
    r.by_all[1] = n.b % 2147483649u;
    r.of_16[0] = (uint16_t)(n.c / 641);
    r.of_16[1] = (uint16_t)(n.c % 10);
    r.of_16[2] = (uint16_t)(n.c / n.d);
    r.of_16[3] = (uint16_t)(n.c % n.d);
    r.with_sign[0] = s / 5;
    r.with_sign[1] = s % 5;
    r.with_sign[2] = s / 16;
    r.with_sign[3] = s % 16;
    r.by_negative[0] = s / -7;
    r.by_negative[1] = s % -7;
    r.signed_by_each_other[0] = s / t;
    r.signed_by_each_other[1] = s % t;
    nf_emit(pkt, &r);
    nf_send(pkt, 0);
}
