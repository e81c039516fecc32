/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * ext6: extension headers, each with options, in two loops.
 */
#include <nicforge.h>
NF_PORTS(2);
struct base {
    uint8_t eth[14];
    uint8_t a[6];
    uint8_t next, hops;
    uint8_t addr[32];
} __attribute__((packed));
struct ext {
    uint8_t next, length;
    uint8_t b[6];
};
struct opt {
    uint8_t type, length;
};
NF_TABLE(hash, kinds, uint16_t, uint32_t, 512);
void net_recv(nf_pkt pkt)
{
    struct base h;
    struct ext x;
    struct opt o;
    uint8_t next;
    uint32_t size, at;
    if (!nf_extract(pkt, &h)) {
        nf_drop(pkt, "short");
        return;
    }
    next = h.next & 3;
    for (uint32_t i = 0; i < 8; i++) {
        if (next > 2)
            break;
        if (!nf_extract(pkt, &x)) {
            nf_drop(pkt, "cut");
            return;
        }
        size = (uint32_t)(x.length & 7) * 8;
        at = 0;
        for (uint32_t k = 0; k < 6; k++) {
            if (at + 2 > size || !nf_load(pkt, at, &o))
                break;
            nf_add_value(&kinds, (uint16_t)(next << 8 | o.type), 1);
            at += 2 + (o.length & 15);
        }
        if (size && !nf_strip(pkt, size)) {
            nf_drop(pkt, "cut");
            return;
        }
        next = x.next & 3;
    }
    nf_emit(pkt, &h);
    nf_send(pkt, 0);
}
