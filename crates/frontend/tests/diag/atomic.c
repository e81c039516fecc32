// test: check
#include <nicforge.h>

struct both {
    uint32_t a, b;
};

static _Atomic(struct both) pair;

void net_recv(nf_pkt pkt)
{
    uint32_t x = 1, y = 2;

    pair = (struct both){1, 2};
    x += __sync_fetch_and_umax(&y, 3);
    nf_send(pkt, x);
}
