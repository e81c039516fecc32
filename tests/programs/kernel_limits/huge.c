/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * huge: values of 2,400 bytes.
 */
#include <nicforge.h>
NF_PORTS(2);
struct page {
    uint32_t v[600];
};
NF_TABLE(array, pages, uint32_t, struct page, 8);
struct in {
    uint8_t eth[14];
    uint16_t at;
    uint32_t by;
} __attribute__((packed));
void net_recv(nf_pkt pkt)
{
    struct in in;
    struct page p = {0}, q;
    if (!nf_extract(pkt, &in)) {
        nf_drop(pkt, "short");
        return;
    }
    if (nf_lookup(&pages, in.at & 7, &q)) {
        q.v[in.at % 600] += in.by;
        p.v[in.by % 600] = q.v[5];
        if (in.by & 1)
            nf_update(&pages, in.at & 7, q);
        else
            nf_update(&pages, in.at & 7, p);
    }
    in.by = p.v[in.at % 600] + q.v[7];
    nf_emit(pkt, &in);
    nf_send(pkt, 1);
}
