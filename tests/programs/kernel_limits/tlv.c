/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * tlv: fields of type, length and value.
 */
#include <nicforge.h>
NF_PORTS(2);
struct tlv {
    uint8_t type, length;
};
struct val {
    uint32_t v;
};
struct out {
    uint32_t v[8];
    uint8_t types[8];
    uint8_t count;
} __attribute__((packed));
void net_recv(nf_pkt pkt)
{
    struct tlv t;
    struct val v;
    struct out o = {0};
    for (uint32_t i = 0; i < 16; i++) {
        if (!nf_extract(pkt, &t))
            break;
        if (t.type == 0)
            break;
        if (t.length == 4 && nf_load(pkt, 0, &v)) {
            o.v[o.count & 7] = v.v;
            o.types[o.count & 7] = t.type;
            o.count++;
        }
        if (!nf_strip(pkt, t.length))
            break;
    }
    nf_emit(pkt, &o);
    nf_send(pkt, 0);
}
