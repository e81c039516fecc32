/* Calls through constant arrays of functions: by an index that varies, with holes, with pointers,
 * and of functions that give the packet away. */
#include <nicforge.h>

struct head {
    uint8_t kind, a, b, c;
    uint32_t d;
};

typedef uint32_t (*op_t)(uint32_t, struct head *);

static uint32_t calls;

static uint32_t add(uint32_t x, struct head *h)
{
    h->d += x;
    return h->d + h->a;
}

static uint32_t mix(uint32_t x, struct head *h)
{
    h->b ^= x;
    calls++;
    return x * 33 + h->c;
}

uint32_t turn(uint32_t x, struct head *h)
{
    h->kind = (uint8_t)(x >> 3);
    return ~x;
}

static const op_t ops[8] = {[1] = add, [2] = mix, [3] = add, [6] = turn};
static uint32_t (*const always)(uint32_t, struct head *) = mix;

static void forward(nf_pkt pkt, uint32_t port) { nf_send(pkt, port & 1); }

static void refuse(nf_pkt pkt, uint32_t why)
{
    if (why & 1)
        nf_drop(pkt, "odd");
    else
        nf_pass(pkt);
}

static void (*ends[])(nf_pkt, uint32_t) = {forward, refuse, forward};

void net_recv(nf_pkt pkt)
{
    struct head h;

    if (!nf_extract(pkt, &h)) {
        nf_drop(pkt, "short");
        return;
    }
    uint32_t n = h.a, sum = 0;
    for (uint32_t i = 0; i < 3; i++) {
        if (ops[(h.kind + i) & 7])
            sum += ops[(h.kind + i) & 7](n++, &h);
        if (ops[h.c & 7] == NULL)
            sum ^= 5;
    }
    sum += (*ops[2])(calls, &h) + always(n, &h);
    h.d ^= sum;
    nf_emit(pkt, &h);
    ends[h.d % 3](pkt, h.d >> 7);
}
