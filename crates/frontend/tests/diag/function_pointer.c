// test: check
#include <nicforge.h>

static int twice(int x) { return 2 * x; }

static int (*moving)(int) = twice;
static int (*const rows[2][2])(int) = {{twice}};

void net_recv(nf_pkt pkt)
{
    int (*f)(int) = twice;

    moving = 0;
    nf_send(pkt, f(1) + rows[0][1](2));
}
