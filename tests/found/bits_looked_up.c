/* An array in an entry whose elements are bit-fields: looked up, changed, written back. */
#include <nicforge.h>

struct pair {
    uint32_t a : 8;
    uint32_t b : 24;
};

struct value {
    struct pair pairs[2];
    int16_t small : 5;
};

NF_TABLE(array, counts, uint32_t, struct value, 4);

void net_recv(nf_pkt pkt)
{
    uint32_t at = nf_len(pkt) & 3;
    struct value value;
    nf_lookup(&counts, at, &value);
    value.pairs[at & 1].b += nf_len(pkt);
    value.pairs[0].a ^= value.small;
    value.small -= 3;
    nf_update(&counts, at, value);
    nf_emit(pkt, &value);
    nf_send(pkt, value.pairs[1].b & 1);
}
