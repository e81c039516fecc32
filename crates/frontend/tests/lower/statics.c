// test: lower
// Variables outside functions and static ones inside: what each access becomes.
#include <nicforge.h>

struct flow {
    uint32_t packets, bytes;
    uint16_t sizes[4];
    uint8_t state : 3;
};

static struct flow flows[256];
static uint64_t packets;
static uint16_t next_port = 1024;
static uint8_t weights[3] = {1, 2, 3};
static bool even = 1;
extern uint32_t limit;
uint32_t limit;
static uint32_t never_used;
static uint32_t never_changed = 5;

static void account(struct flow *flow, uint32_t len)
{
    flow->packets++;
    flow->bytes += len;
    flow->sizes[2] -= 1;
    flow->state = 4;
}

static uint32_t turn(void)
{
    static uint32_t turns = 7;
    return ++turns;
}

void net_recv(nf_pkt pkt)
{
    static uint8_t seen[4];
    uint8_t first[4] = {0};

    packets++;
    nf_load(pkt, 0, &first);
    struct flow *flow = &flows[first[0]];
    account(flow, nf_len(pkt));
    account(&flows[first[1]], never_changed);
    if (flow->bytes > limit)
        weights[first[2] & 3] |= 1;
    memcpy(seen, first, 4);
    even = !even;
    uint16_t port = next_port++;
    nf_send(pkt, (port + seen[3] + turn() + weights[1]) & even);
}
