// test: check
#include <nicforge.h>

struct limits {
    uint32_t low, high;
};

static struct limits limits = {.high = 3};
static struct limits each[2] = {{1, 2}};
extern uint32_t elsewhere;
static uint32_t *leads;
static float share;

void net_recv(nf_pkt pkt)
{
    limits.low++;
    each[limits.low & 1].high++;
    elsewhere++;
    leads = 0;
    share += 1;
    nf_send(pkt, limits.high);
}

static uint64_t counts[65536];

NF_TIMER(NF_MS(10))
void clear(void)
{
    memset(counts, 0, sizeof counts);
}
