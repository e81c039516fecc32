/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * helpers: helpers that fill and read structs through pointers.
 */
#include <nicforge.h>
NF_PORTS(2);
struct addr {
    uint8_t b[16];
};
struct flow {
    struct addr a, b;
    uint16_t p, q;
    uint8_t proto;
};
struct stat {
    uint64_t bytes, packets;
    struct flow last;
    uint8_t history[100];
};
struct in {
    uint8_t eth[14];
    uint8_t a[16], b[16];
    uint16_t p, q;
    uint8_t proto;
} __attribute__((packed));
NF_TABLE(lru, flows, struct flow, struct stat, 4096);
static void fill(struct flow *f, struct in *in, bool turn)
{
    for (uint32_t i = 0; i < 16; i++) {
        f->a.b[i] = turn ? in->b[i] : in->a[i];
        f->b.b[i] = turn ? in->a[i] : in->b[i];
    }
    f->p = turn ? in->q : in->p;
    f->q = turn ? in->p : in->q;
    f->proto = in->proto;
}
static uint32_t score(struct stat *s)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < 100; i++)
        n += s->history[i] * (i + 1);
    return n;
}
void net_recv(nf_pkt pkt)
{
    struct in in;
    struct flow f = {0}, g = {0};
    struct stat s, t;
    uint32_t n;
    if (!nf_extract(pkt, &in)) {
        nf_drop(pkt, "short");
        return;
    }
    fill(&f, &in, false);
    fill(&g, &in, true);
    nf_lookup(&flows, f, &s);
    nf_lookup(&flows, g, &t);
    s.packets++;
    s.bytes += nf_len(pkt);
    s.last = g;
    s.history[s.packets % 100] = in.proto;
    t.last = f;
    t.history[t.packets % 100] ^= 1;
    n = score(&s) + score(&t);
    nf_update(&flows, f, s);
    nf_update(&flows, g, t);
    nf_emit(pkt, &n);
    nf_emit(pkt, &in);
    nf_send(pkt, 1);
}
