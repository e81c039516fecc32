/* Pointers that lead to one of several variables, or nowhere. */
#include <nicforge.h>

struct told {
    uint32_t key;
    uint16_t code;
    uint8_t bytes[6];
    uint64_t sum;
};

struct entry {
    uint32_t key;
    uint32_t count;
    uint8_t bytes[6];
};

struct limit {
    uint32_t rate;
    uint32_t burst;
};

static struct entry entries[16];
static struct entry overflow[2];
static const struct limit fallback = {5, 7};

NF_TABLE(hash, limits, uint32_t, struct limit, 8);

static uint32_t weight(const struct limit *limit) { return limit->rate * 3 + limit->burst; }

static void moved(uint8_t *to, uint32_t by)
{
    *to += by;
    to[1] ^= by;
}

/* A parameter that is given another place. */
static uint32_t total(const struct limit *limit, uint32_t over)
{
    struct limit own = {over, over + 1};
    if (limit->rate < over)
        limit = &own;
    return limit->rate + limit->burst;
}

void net_recv(nf_pkt pkt)
{
    struct told told;
    if (!nf_extract(pkt, &told)) {
        nf_drop(pkt, "short");
        return;
    }
    struct limit found;
    const struct limit *limit = &fallback;
    if (nf_lookup(&limits, told.key & 7, &found))
        limit = &found;
    else if (told.code & 4)
        nf_update(&limits, told.key & 7, (struct limit){told.code, told.key});
    told.sum = weight(limit) + limit->rate + total(limit, told.code);

    /* The first one with the key, or else the first free one, or none. */
    struct entry *best = NULL;
    for (int i = 0; i < 4; i++) {
        struct entry *entry = &entries[(told.key + i) % 16];
        if (entry->key == told.key) {
            best = entry;
            break;
        }
        if (!best && entry->key == 0)
            best = entry;
    }
    if (best == NULL && told.code % 3 == 0)
        best = &overflow[told.code & 1];
    if (best) {
        best->key = told.key;
        best->count++;
        memcpy(best->bytes, told.bytes, sizeof(best->bytes));
    }
    told.sum += best ? best->count : 1000;

    /* One of two arrays, through which it then moves. */
    uint8_t other[8] = {1, 2, 3, 4, 5, 6, 7, 8};
    uint8_t *at = told.code & 8 ? told.bytes : other;
    for (int i = 0; i < 3; i++) {
        *at++ += i;
        told.sum = told.sum * 31 + at[-1];
    }
    moved(at, told.code);
    moved((told.key & 1) ? other : told.bytes + 2, 3);
    uint8_t *second = at - 1;
    at = other + (told.code & 3);
    told.sum += *second * 257 + *at + other[5];
    const uint8_t *where = told.code & 2 ? other + 2 : told.bytes + 1;
    told.sum += (where == other + 2) + 2 * (where != &told.bytes[told.key & 3]) + (where == at);
    const struct limit *both = told.code & 1 ? &fallback : &found;
    struct limit copy;
    memcpy(&copy, both, sizeof(*both));
    told.sum += copy.burst + sizeof(both->rate);

    /* Two pointers into the same one of two variables, as generated program 940270 has them. */
    struct entry left = {.key = told.key}, right = {.count = told.code};
    struct entry *one = told.code & 4 ? &left : &right;
    uint8_t *in = &one->bytes[told.key % 5];
    for (int i = 0; i < 4 && in < one->bytes + 5; i++)
        *in++ ^= told.code + i;
    told.sum += (in - one->bytes) * 7 + (in >= &one->bytes[2]) + left.bytes[2] + right.bytes[3];

    nf_emit(pkt, &told);
    nf_send(pkt, best != NULL);
}
