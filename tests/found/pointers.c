/* Pointers that are names for one place, bytes seen as another type, statements in expressions. */
#include <nicforge.h>

struct pair {
    uint8_t first;
    uint8_t second;
    uint16_t both;
};

struct other {
    uint16_t sum;
    uint8_t low;
    uint8_t high;
};

struct header {
    uint8_t bytes[16];
    struct pair pairs[3];
    uint32_t last;
};

NF_TABLE(hash, seen, uint32_t, struct header, 64);

static const uint16_t weights[4] = {3, 5, 7, 11};

#define LARGER(a, b)                                                                               \
    ({                                                                                             \
        __typeof__(a) a_ = (a);                                                                    \
        __typeof__(b) b_ = (b);                                                                    \
        (void)(&a_ == &b_);                                                                        \
        a_ > b_ ? a_ : b_;                                                                         \
    })

#define ALL_ZERO(pointer)                                                                          \
    (__extension__({                                                                               \
        const uint32_t *p_ = (const uint32_t *)(pointer);                                          \
        const uint8_t *last_ = &(pointer)[15];                                                     \
        *p_ == 0 && *last_ == 0;                                                                   \
    }))

static void turn(struct other *other, const struct pair *from)
{
    const struct pair *same = from;
    other->low += same->second;
    other->high ^= (uint8_t)(same->both >> 8);
}

static uint32_t folded(const struct header *header)
{
    const uint8_t *bytes = header->bytes;
    const uint16_t *weight = weights;
    uint32_t sum = 0;
    for (uint32_t i = 0; i < 16; i++)
        sum += bytes[i] * weight[i & 3];
    const uint16_t *words = (const uint16_t *)header;
    (void)words;
    for (uint32_t i = 0; i < sizeof *header / 2; i++)
        sum += words[i];
    return sum + *bytes;
}

void net_recv(nf_pkt pkt)
{
    struct header header;
    if (!nf_extract(pkt, &header)) {
        nf_drop(pkt, "short");
        return;
    }
    struct pair *second = &header.pairs[1];
    struct pair *const third = &header.pairs[2];
    struct other *view = (struct other *)second;
    view->sum += 3;
    second->first ^= header.last;
    struct pair copy = *second;
    turn((struct other *)&header.pairs[0], &copy);
    *(uint32_t *)&header.bytes[4] += *(const uint32_t *)&header.last;
    ((struct other *)&header.bytes[8])->high = view->low;
    *header.bytes = (uint8_t)LARGER(header.bytes[1], second->second);
    ((uint16_t *)header.bytes)[header.last & 7] ^= 5;
    ((uint16_t *)&header.bytes[4])[header.last & 3] += ((const uint16_t *)&header.bytes[10])[1];
    uint32_t trips = 0;
    for (view->low = 0; second->both < 4 && trips < 9; trips++)
        view->low += 2;
    struct header old = {};
    struct header *before = &old;
    if (nf_lookup(&seen, header.last, before) && !ALL_ZERO(before->bytes))
        second->first ^= (uint8_t)before->pairs[1].both;
    nf_update(&seen, header.last, header);
    header.last += folded(&header) + trips + third->first;
    nf_emit(pkt, &header);
    nf_send(pkt, LARGER(header.last & 1, (uint32_t)view->high & 1));
}
