#include <nicforge.h>

struct flow {
    uint32_t packets;
    uint32_t bytes;
    uint8_t last[4];
};

static uint64_t packets;
static uint16_t next_port = 1024;
static struct flow flows[64];
static uint32_t weights[4] = {1, 2, 3, 4};
static uint8_t matrix[4][8];
static int16_t cube[2][3][4] = {{{1}, {2, -3}}};
static _Bool toggled = 1;
static struct {
    uint32_t a : 5, b : 11;
    uint8_t c;
} odd;
int limit = 7;
extern uint32_t later;

static void count(struct flow *f, uint32_t len)
{
    f->packets++;
    f->bytes += len;
    f->last[f->packets & 3] ^= (uint8_t)len;
    packets += 2;
}

static uint16_t take(uint16_t *port)
{
    uint16_t taken = (*port)++;
    if (*port > 1030)
        *port = 1024;
    return taken;
}

static uint32_t turn(void)
{
    static uint32_t turn = 3;
    turn = turn * 5 + 1;
    return turn;
}

struct head {
    uint8_t a, b, c, d;
};

struct out {
    uint64_t packets;
    uint32_t turn, later, flow_bytes;
    uint16_t port;
    uint8_t m, toggled, odd;
};

void net_recv(nf_pkt pkt)
{
    struct head h;
    static uint8_t seen[4];

    if (!nf_extract(pkt, &h)) {
        nf_drop(pkt, "short");
        return;
    }
    packets++;
    struct flow *f = &flows[h.a & 63];
    count(f, h.b);
    if (h.c & 1)
        count(&flows[h.b & 63], h.d);
    weights[h.c & 3] += h.d;
    weights[h.d & 3]--;
    matrix[h.a & 3][h.b & 7] = h.c;
    matrix[h.b & 3][h.c & 7]++;
    toggled ^= h.a & 1;
    cube[h.a & 1][h.b % 3][h.c & 3] += h.d;
    int16_t *row = cube[h.d & 1][1];
    row[h.a & 3]--;
    odd.a += h.a;
    odd.b--;
    odd.c |= h.d;
    later = later + weights[2] + (later == 0 ? limit : 0);
    memcpy(seen, &h, 4);
    struct out out = {
        .packets = packets,
        .turn = turn() + turn(),
        .later = later,
        .flow_bytes = f->bytes + f->last[h.d & 3],
        .port = take(&next_port),
        .m = matrix[h.c & 3][h.d & 7] + seen[h.a & 3] + cube[1][h.c % 3][h.b & 3] + row[2],
        .toggled = toggled,
        .odd = odd.a ^ odd.b ^ odd.c,
    };
    nf_emit(pkt, &out);
    nf_send(pkt, 0);
}

uint32_t later;
