/* Pointers to functions that change: variables, members, arguments, results, and state. */
#include <nicforge.h>

struct told {
    uint32_t key;
    uint16_t code;
    uint8_t bytes[6];
    uint64_t sum;
};

typedef uint32_t step(uint32_t, struct told *);
typedef uint32_t (*op)(uint32_t, uint32_t);

struct kind {
    op combine;
    step *next;
    uint32_t weight;
};

static uint32_t add(uint32_t a, uint32_t b) { return a + b; }
static uint32_t take(uint32_t a, uint32_t b) { return a - b; }

static uint32_t mark(uint32_t n, struct told *told)
{
    told->bytes[n % 6]++;
    return n * 3;
}

static uint32_t clear(uint32_t n, struct told *told)
{
    told->bytes[n % 6] = 0;
    return ~n;
}

static const struct kind kinds[3] = {{add, mark, 5}, {take, clear, 6}, {take, 0, 7}};
static uint32_t turns;

static uint32_t apply(op f, uint32_t n) { return f(n, 3) + f(5, n); }

static op chosen(uint32_t n) { return n & 2 ? add : n & 1 ? &take : NULL; }

static uint32_t run(const struct kind *kind, struct told *told)
{
    uint32_t n = kind->combine(told->key, kind->weight);
    if (kind->next)
        n += kind->next(n, told);
    return kind->next == clear ? n + 1 : n;
}

void net_recv(nf_pkt pkt)
{
    struct told told;
    if (!nf_extract(pkt, &told)) {
        nf_drop(pkt, "short");
        return;
    }
    op f = told.code & 1 ? add : take, g = chosen(told.key);
    told.sum += f(told.key, 5) + apply(f, told.code) + apply(take, 4);
    if (g)
        told.sum = told.sum * 7 + (*g)(told.code, turns++);
    told.sum += run(&kinds[told.code % 3], &told) + (f == g) + (told.key & 4 ? add : f)(1, 2);
    f = g ? g : f;
    told.sum += (**f)(told.key, 9) + (*take)(turns, 1);
    nf_emit(pkt, &told);
    nf_send(pkt, f == take);
}
