// test: lower
// Constant arrays and structs, enumerators, offsetof and sizeof, bit-fields, designated initialisers, byte order.
#include <nicforge.h>

enum state { IDLE, OPEN = 4, CLOSED };
enum { MINUS = -1 };

struct __attribute__((packed)) header {
    uint8_t flags : 3;
    uint8_t : 2;
    uint8_t kind : 3;
    nf_be16 length;
    struct {
        uint8_t hi, lo;
    };
    uint8_t tail[3];
};

static const uint16_t weights[5] = { 1, 2, [4] = 0x1234 };
static const struct header templates[2] = { { 5, 6, NF_HTONS(20), { 1, 2 }, { [1] = 7 } } };
static const struct header first = { .kind = 2 };
const nf_be16 magic = NF_HTONS(0xcafe);
#define LIMIT (OPEN + CLOSED)
_Static_assert(sizeof(struct header) == 8, "layout");

void net_recv(nf_pkt pkt)
{
    enum state state = nf_len(pkt) > LIMIT ? OPEN : IDLE;
    struct header h = { .kind = state, .lo = first.kind, .tail = { 1, [2] = weights[state & 7] } };
    h.flags = 9;
    h.hi += offsetof(struct header, tail) + sizeof h.tail;
    struct header copy = templates[state == OPEN];
    copy.tail[nf_len(pkt) & 3] = h.tail[1];
    copy.length = magic;
    bool any = h.flags & MINUS;
    nf_emit(pkt, &h);
    nf_emit(pkt, &(struct header){ .flags = any });
    nf_emit(pkt, &copy);
    nf_send(pkt, state);
}
