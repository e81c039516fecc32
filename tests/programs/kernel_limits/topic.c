/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * topic: topic filters with wildcards, compared byte by byte: up to 65 in a loop.
 */
#include <nicforge.h>
NF_PORTS(2);
struct topic {
    uint8_t length;
    uint8_t bytes[65];
};
struct msg {
    uint8_t eth[14];
    uint8_t length;
    uint8_t bytes[65];
} __attribute__((packed));
NF_TABLE(array, filters, uint32_t, struct topic, 8);
NF_TABLE(hash, counts, uint32_t, uint64_t, 64);
static bool match(struct topic *f, struct msg *m)
{
    uint32_t i;
    if (f->length > m->length)
        return false;
    for (i = 0; i < 65; i++) {
        if (i >= f->length)
            return true;
        if (f->bytes[i] == '#')
            return true;
        if (f->bytes[i] != m->bytes[i] && f->bytes[i] != '+')
            return false;
    }
    return true;
}
void net_recv(nf_pkt pkt)
{
    struct msg m;
    struct topic f;
    if (!nf_extract(pkt, &m)) {
        nf_drop(pkt, "short");
        return;
    }
    for (uint32_t k = 0; k < 4; k++) {
        if (!nf_lookup(&filters, k, &f))
            continue;
        if (f.length && match(&f, &m)) {
            nf_add_value(&counts, k, 1);
            nf_emit(pkt, &m);
            nf_send(pkt, 1);
            return;
        }
    }
    nf_drop(pkt, "no filter");
}
