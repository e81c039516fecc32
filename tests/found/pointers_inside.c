/* Pointers to pointers, and structs with pointers, as parsers have them. */
#include <nicforge.h>

struct told {
    uint32_t key;
    uint16_t code;
    uint8_t bytes[26];
    uint64_t sum;
};

struct cursor {
    const uint8_t *at;
    const uint8_t *end;
    uint32_t errors;
};

struct pair {
    uint16_t x, y;
};

/* Members of all kinds beside pointers, which lists may leave out. */
struct state {
    uint32_t n;
    const uint8_t *at;
    uint8_t bytes[4];
    struct pair pair;
    const uint8_t *never;
};

typedef struct {
    uint8_t *to;
    uint16_t left;
} writer_t;

static uint32_t words[4] = {1, 2, 3, 4};
static uint32_t spare;

/* A result by a pointer to a pointer. */
static bool pick(uint32_t n, uint32_t **out)
{
    if (n % 5 == 0)
        return false;
    *out = n & 8 ? &spare : &words[n & 3];
    return true;
}

static bool varint(const uint8_t **at, const uint8_t *end, uint32_t *value)
{
    uint32_t found = 0;
    for (int i = 0; i < 4; i++) {
        if (*at == end)
            return false;
        uint8_t byte = *(*at)++;
        found |= (uint32_t)(byte & 0x7f) << 7 * i;
        if (!(byte & 0x80)) {
            *value = found;
            return true;
        }
    }
    return false;
}

static uint32_t left(const struct cursor *c) { return (uint32_t)(c->end - c->at); }

static const uint8_t *take(struct cursor *c, uint32_t n)
{
    if (left(c) < n) {
        c->errors++;
        return NULL;
    }
    const uint8_t *found = c->at;
    c->at += n;
    return found;
}

static uint32_t be16(struct cursor *c)
{
    const uint8_t *two = take(c, 2);
    return two ? (uint32_t)(two[0] << 8 | two[1]) : 0;
}

static void put(writer_t *w, uint8_t byte)
{
    if (w->left == 0)
        return;
    *w->to++ = byte;
    w->left--;
}

/* By value: the caller's stays where it is. */
static uint32_t peek(struct cursor c)
{
    uint32_t sum = 0;
    for (int i = 0; i < 3 && c.at < c.end; i++)
        sum = sum * 31 + *c.at++;
    return sum;
}

static uint32_t length(const uint8_t *bytes, const uint8_t **end)
{
    uint32_t n = 0;
    while (n < 5 && bytes[n] & 1)
        n++;
    if (end)
        *end = bytes + n;
    return n;
}

static bool next(struct cursor *c, uint8_t *value)
{
    static uint32_t calls;
    static const uint8_t more[4] = {1, 2, 3, 5};
    calls++;
    if (c->at == c->end)
        return false;
    *value = *c->at++ + more[calls & 3];
    return true;
}

void net_recv(nf_pkt pkt)
{
    struct told told;
    if (!nf_extract(pkt, &told)) {
        nf_drop(pkt, "short");
        return;
    }
    uint64_t sum = 0;
    uint32_t *word = NULL;
    if (pick(told.key, &word))
        *word += told.code;
    sum += word ? *word : 7;

    const uint8_t *at = told.bytes;
    uint32_t value = 0;
    for (int i = 0; i < 6; i++) {
        if (!varint(&at, told.bytes + sizeof(told.bytes), &value))
            break;
        sum = sum * 3 + value;
    }

    struct cursor c = {told.bytes + (told.code & 7), told.bytes + 20};
    struct cursor saved = c;
    sum += peek(c);
    for (int i = 0; i < 4; i++) {
        uint32_t kind = be16(&c);
        if (kind == 0)
            continue;
        const uint8_t *bytes = take(&c, kind & 3);
        if (bytes && (kind & 3) != 0)
            sum += bytes[0] * 5 + bytes[(kind & 3) - 1];
    }
    sum = sum * 7 + c.errors + left(&c);
    if (c.errors > 1)
        c = saved;
    else if (told.key & 1)
        c = (struct cursor){.at = told.bytes, .end = told.bytes + 2};
    sum = sum * 5 + be16(&c) + c.errors;

    const uint8_t *stop;
    sum += length(told.bytes, &stop) + *stop + length(told.bytes + 3, NULL) * 5;
    c = (struct cursor){.at = told.bytes, .end = told.bytes + 9};
    uint8_t one = 0;
    for (int i = 0; i < 4 && next(&c, &one); i++)
        sum = sum * 3 + one;
    for (int i = 0; next(&c, &one) && i < 3; i++)
        sum = sum * 5 + one;
    const uint8_t *from = told.bytes, *to = told.bytes + 3;
    if (told.code & 16) {
        const uint8_t *was = from;
        from = to;
        to = was;
    }
    sum += *from + to[1] * 3 + left(&c);

    struct state state = {1, told.bytes, {1, 2, 3, 4}, {5, 6}, NULL}, kept = state;
    kept.bytes[told.key & 3]++;
    kept.pair.y += told.code;
    sum += kept.bytes[told.code & 3] + kept.pair.y + *kept.at + (kept.never == NULL);
    if (told.code & 64)
        state = (struct state){.bytes = {7}};
    sum += state.n + state.bytes[1] * 3 + state.pair.y + (state.at ? *state.at : 11);
    struct state empty = {.n = 3};
    if (told.key & 4)
        empty.at = told.bytes + 1;
    sum += (empty.at ? *empty.at : 9) + (empty.never == NULL) + empty.bytes[told.key & 3];

    uint8_t room[6] = {0};
    writer_t w = {room, sizeof(room)};
    for (uint32_t i = 0; i < (told.key & 7); i++)
        put(&w, (uint8_t)(sum >> i));
    for (int i = 0; i < 6; i++)
        sum = sum * 3 + room[i];
    told.sum = sum + w.left;
    nf_emit(pkt, &told);
    nf_send(pkt, told.sum & 1);
}
