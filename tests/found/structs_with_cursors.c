/* Structs with pointers as results, as members of others, and behind pointers to them. */
#include <nicforge.h>

struct told {
    uint32_t key;
    uint16_t code;
    uint8_t bytes[26];
    uint64_t sum;
};

struct view {
    const uint8_t *at;
    uint32_t left;
};

struct parser {
    uint16_t depth;
    struct view in;
    uint32_t errors;
};

typedef struct {
    struct parser parser;
    uint8_t *out;
    uint32_t used;
} session_t;

static struct view view_of(const uint8_t *at, uint32_t left)
{
    struct view made = {at, left};
    return made;
}

static struct view without(struct view from, uint32_t n)
{
    if (n > from.left)
        return (struct view){from.at, 0};
    from.at += n;
    from.left -= n;
    return from;
}

static uint8_t next(struct view *from)
{
    if (from->left == 0)
        return 0xee;
    from->left--;
    return *from->at++;
}

static uint32_t word(struct parser *p)
{
    struct view *in = &p->in;
    if (in->left < 2) {
        p->errors++;
        return 7;
    }
    uint32_t high = next(in);
    return high << 8 | next(&p->in);
}

static struct parser enter(const struct parser *outer, uint32_t n)
{
    struct parser inner = {outer->depth + 1, outer->in, 0};
    if (n < inner.in.left)
        inner.in.left = n;
    return inner;
}

static void put(session_t *s, uint8_t byte)
{
    if (s->used < 8)
        s->out[s->used++] = byte;
}

static void copy(session_t *session)
{
    struct parser *p = &session->parser;
    for (int i = 0; i < 6; i++) {
        if (p->in.left == 0)
            break;
        put(session, next(&p->in));
    }
}

void net_recv(nf_pkt pkt)
{
    struct told told;
    uint8_t out[8] = {};
    if (!nf_extract(pkt, &told)) {
        nf_drop(pkt, "short");
        return;
    }
    struct view all = view_of(told.bytes, sizeof told.bytes);
    struct view rest = without(all, told.code & 31);
    session_t session = {{0, rest}, out};
    uint64_t sum = word(&session.parser);
    struct parser inner = enter(&session.parser, told.key & 7);
    sum = sum * 31 + word(&inner) + inner.depth;
    sum = sum * 31 + inner.in.left + inner.errors;
    session_t *s = &session;
    copy(s);
    session.parser.in = without(session.parser.in, 1);
    sum = sum * 31 + word(&s->parser);
    sum = sum * 31 + view_of(told.bytes + 3, told.key & 15).left;
    sum = sum * 31 + next(&all) + session.parser.errors + s->used;
    session_t empty = {};
    sum += empty.used + empty.parser.in.left;
    told.sum = sum;
    for (int i = 0; i < 8; i++)
        told.bytes[i] = out[i];
    nf_emit(pkt, &told);
    nf_send(pkt, 0);
}
