/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * options: up to 20 TCP options, each of a length that the packet says.
 */
#include <nicforge.h>
NF_PORTS(2);
struct head {
    uint8_t eth[14];
    uint8_t ip[20];
    uint8_t tcp[20];
} __attribute__((packed));
struct opt {
    uint8_t kind;
};
struct len {
    uint8_t kind, length;
};
struct mss {
    uint8_t kind, length;
    nf_be16 mss;
} __attribute__((packed));
NF_TABLE(hash, sizes, uint16_t, uint64_t, 256);
void net_recv(nf_pkt pkt)
{
    struct head h;
    struct opt o;
    struct len l;
    struct mss m;
    uint32_t left, at = 0;
    if (!nf_extract(pkt, &h)) {
        nf_drop(pkt, "short");
        return;
    }
    left = (h.tcp[12] >> 4) * 4;
    left = left > 20 ? left - 20 : 0;
    for (uint32_t i = 0; i < 20; i++) {
        if (at >= left)
            break;
        if (!nf_load(pkt, at, &o))
            break;
        if (o.kind == 0)
            break;
        if (o.kind == 1) {
            at++;
            continue;
        }
        if (!nf_load(pkt, at, &l) || l.length < 2)
            break;
        if (o.kind == 2 && l.length == 4 && nf_load(pkt, at, &m)) {
            nf_add_value(&sizes, nf_ntohs(m.mss), 1);
            if (nf_ntohs(m.mss) > 1400) {
                m.mss = nf_htons(1400);
                nf_store(pkt, at, &m);
            }
        }
        at += l.length;
    }
    nf_emit(pkt, &h);
    nf_send(pkt, 1);
}
