// test: check
#include <nicforge.h>

void net_recv(nf_pkt pkt)
{
    uint32_t n = nf_len(pkt);
#define STEP(x) if (n == x) n = 7 * x; else
#define TEN(x) STEP(x) STEP(x + 1) STEP(x + 2) STEP(x + 3) STEP(x + 4) STEP(x + 5) STEP(x + 6) STEP(x + 7)
#define MANY(x) TEN(x) TEN(x + 10) TEN(x + 20) TEN(x + 30) TEN(x + 40) TEN(x + 50) TEN(x + 60)
    MANY(0) MANY(100) MANY(200) MANY(300) n = 0;
    nf_send(pkt, n);
}
