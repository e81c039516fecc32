// test: lower
#include <nicforge.h>
/* A bound before a condition that never holds again, and one whose facts contradict each other. */
void net_recv(nf_pkt pkt)
{
    uint8_t n = 0;
    nf_load(pkt, 0, &n);
    do {
        NF_BOUND(5);
        n++;
    } while (0);
    if (n > 200 && n < 3)
        n = (uint8_t)(1 << n);
    nf_strip(pkt, n);
    nf_send(pkt, 0);
}
