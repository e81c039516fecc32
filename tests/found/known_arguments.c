/* Ways out of loops in functions that are lowered for what a call says of their arguments: a test
 * that ends a loop is not decided by what it makes true. */
#include <nicforge.h>

struct told {
    uint32_t key;
    uint16_t code;
    uint8_t bytes[26];
    uint64_t sum;
};

struct st {
    uint32_t n;
    uint32_t lim;
    uint64_t h;
};

static uint32_t f(struct st *s, uint32_t n)
{
    uint32_t i = 0, k = 0;
    for (;;) {
        if (i >= n)
            break;
        s->h = s->h * 31 + i;
        i++;
    }
    while (1) {
        if (k == 6)
            break;
        s->h += k;
        k += 2;
    }
    for (uint32_t t = 0;; t++) {
        if (t >= 9)
            return i;
        if (s->n >= s->lim)
            return i + 1;
        s->n++;
        s->h ^= s->n;
    }
    return 0;
}

static uint32_t g(struct st *s, int n)
{
    for (int i = 0;; i++) {
        if (!(i < n)) {
            s->h += 1000;
            break;
        }
        s->h = s->h * 31 + i;
        if (i == n - 1)
            s->h ^= 5;
    }
    int j = n;
    while (j) {
        --j;
        if (j == 0)
            s->h += 77;
        if (j < 0)
            s->h = 0;
    }
    for (int i = n; i >= 0; i--) {
        if (i < 1)
            s->h += 3;
    }
    return n > 3 ? 1 : 2;
}

void net_recv(nf_pkt pkt)
{
    struct told told;
    struct st s = {};
    if (!nf_extract(pkt, &told)) {
        nf_drop(pkt, "short");
        return;
    }
    s.h = told.key;
    s.lim = 9;
    uint32_t r = f(&s, 8);
    r = r * 10 + f(&s, told.code & 3);
    r = r * 10 + g(&s, 5);
    r = r * 10 + g(&s, told.code & 7);
    told.key = r;
    told.sum = s.h;
    nf_emit(pkt, &told);
    nf_send(pkt, 0);
}
