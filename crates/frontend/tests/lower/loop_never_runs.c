// test: lower
// What counts in a loop that never runs bounds the loops in it.
#include <nicforge.h>

void net_recv(nf_pkt pkt)
{
    uint32_t sum = 0;
    for (uint32_t i = 0; i < 0; i++) {
        for (uint32_t j = 0; j < (i & 7); j++) {
            sum += j;
        }
    }
    nf_send(pkt, sum & 1);
}
