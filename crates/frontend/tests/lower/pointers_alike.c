// test: lower
// Two pointers into one variable are that variable once.
#include <nicforge.h>

struct pair {
    uint32_t first, second;
};

static void swap(uint32_t *a, uint32_t *b)
{
    uint32_t t = *a;
    *a = *b;
    *b = t;
}

static void add_all(struct pair *pair, const uint32_t *more)
{
    pair->first += *more;
    pair->second += *more;
}

void net_recv(nf_pkt pkt)
{
    uint32_t x = 1;
    uint32_t v[4];
    struct pair pairs[2] = {};
    nf_extract(pkt, &v);
    swap(&x, &x);
    swap(&v[v[0] & 3], &v[2]);
    add_all(&pairs[x & 1], &pairs[1].second);
    nf_send(pkt, x + v[2] + pairs[0].first);
}
