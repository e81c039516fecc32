/* Pointers into rows, with indices that change behind their declarations, or have effects. */
#include <nicforge.h>
struct in {
    uint32_t n;
    uint16_t sizes[4];
};
struct flow {
    struct in in[2];
    uint32_t a;
};
static struct flow flows[16];
static uint32_t cube[2][3][4];
static uint32_t at;
static uint32_t bump(void) { return at++; }
void net_recv(nf_pkt pkt)
{
    struct nf_eth h;
    struct flow local[4] = {};
    if (!nf_extract(pkt, &h)) {
        nf_drop(pkt, "s");
        return;
    }
    uint32_t *row = cube[h.src.b[0] & 1][h.src.b[1] % 3],
             *n = &flows[nf_hash(0, h.src) & 15].in[h.dst.b[0] & 1].n;
    uint16_t *sizes = flows[bump() & 15].in[1].sizes;
    struct in *in = &local[h.dst.b[2] & 3].in[h.dst.b[3] & 1];
    h.src.b[0]++;
    h.dst.b[2] ^= 3;
    at += 3;
    row[h.dst.b[1] & 3]++;
    (*n)++;
    *sizes++ = 4;
    *sizes = 3;
    in->n = row[0] + *n;
    in->sizes[1] += at;
    struct out {
        uint32_t a;
        uint32_t b;
        uint16_t c, d;
    } o = {local[0].in[0].n + local[2].in[1].n, in->sizes[1], flows[at & 15].in[1].sizes[0],
           flows[at & 15].in[1].sizes[1]};
    nf_emit(pkt, &o);
    nf_send(pkt, 0);
}
