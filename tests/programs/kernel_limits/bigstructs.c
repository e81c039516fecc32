/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * bigstructs: three records of 256 bytes at once.
 */
#include <nicforge.h>
NF_PORTS(2);
struct rec {
    uint64_t v[24];
    uint8_t name[64];
};
NF_TABLE(hash, recs, uint32_t, struct rec, 256);
struct in {
    uint8_t eth[14];
    uint32_t a, b, c;
} __attribute__((packed));
void net_recv(nf_pkt pkt)
{
    struct in in;
    struct rec x, y, z;
    if (!nf_extract(pkt, &in)) {
        nf_drop(pkt, "short");
        return;
    }
    nf_lookup(&recs, in.a, &x);
    nf_lookup(&recs, in.b, &y);
    z = x;
    for (uint32_t i = 0; i < 24; i++)
        z.v[i] = x.v[i] * 3 + y.v[23 - i] + i;
    z.name[in.c & 63]++;
    nf_update(&recs, in.c, z);
    x.v[0] = y.v[1];
    nf_update(&recs, in.a, x);
    y.v[in.b & 15] ^= z.v[in.a & 15];
    nf_update(&recs, in.b, y);
    nf_emit(pkt, &in);
    nf_emit(pkt, &z.v[2]);
    nf_send(pkt, 1);
}
