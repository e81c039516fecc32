/* Loops and copies that end by what another function put into a struct, as digests have them:
 * begin, add, end. Which way a function goes is known where it is called. */
#include <nicforge.h>

struct told {
    uint32_t key;
    uint16_t code;
    uint8_t bytes[26];
    uint64_t sum;
};

struct digest {
    uint32_t h[4];
    uint8_t block[16];
    uint32_t filled;
    uint32_t length;
    bool last;
};

struct setup {
    uint8_t length;
    uint8_t keyed;
    uint32_t seed;
};

static void stir(struct digest *d, const uint8_t block[16])
{
    for (int i = 0; i < 16; i++)
        d->h[i & 3] = d->h[(i + 1) & 3] * 31 + block[i];
}

static void count(struct digest *d, uint32_t n) { d->h[0] += n; }

static void mark_last(struct digest *d) { d->last = true; }

static void mark(struct digest *d)
{
    if (d->h[1])
        mark_last(d);
    d->h[2] ^= d->last;
}

static int begin_with(struct digest *d, const struct setup *s)
{
    memset(d, 0, sizeof *d);
    for (int i = 0; i < 4; i++)
        d->h[i] = s->seed + i;
    d->length = s->length;
    return 0;
}

static int begin(struct digest *d, uint32_t length)
{
    struct setup s[1] = {};
    if (!length || length > 16)
        return -1;
    s->length = length;
    s->keyed = 1;
    s->seed = 77;
    return begin_with(d, s);
}

static void add(struct digest *d, const void *from, uint32_t n)
{
    const uint8_t *bytes = from;
    uint32_t room = 16 - d->filled;
    if (n > room) {
        memcpy(d->block + d->filled, bytes, room);
        stir(d, d->block);
        count(d, 16);
        d->filled = 0;
        bytes += room;
        n -= room;
        while (n > 16) {
            stir(d, bytes);
            bytes += 16;
            n -= 16;
        }
    }
    memcpy(d->block + d->filled, bytes, n);
    d->filled += n;
}

static int end(struct digest *d, uint8_t *out, uint32_t n)
{
    if (n < d->length || d->last)
        return -1;
    count(d, d->filled);
    mark(d);
    memset(d->block + d->filled, 0, 16 - d->filled);
    stir(d, d->block);
    for (uint32_t i = 0; i < d->length; i++)
        out[i] = d->h[i & 3] >> (i & 24);
    return d->length;
}

void net_recv(nf_pkt pkt)
{
    struct told told;
    struct digest d[1];
    if (!nf_extract(pkt, &told)) {
        nf_drop(pkt, "short");
        return;
    }
    int known = begin(d, 12);
    add(d, told.bytes, told.code % 17);
    uint8_t out[16] = {};
    told.sum = known + end(d, out, sizeof out);
    struct digest other;
    if (begin(&other, 17) < 0)
        other = *d;
    told.sum = told.sum * 31 + other.filled;
    for (int i = 0; i < 16; i++)
        told.bytes[i] = out[i];
    nf_emit(pkt, &told);
    nf_send(pkt, 0);
}
