// test: check
#include <nicforge.h>

void net_recv(nf_pkt pkt)
{
    uint32_t sum = 0;
    for (int i = 0; i < 100000; i++)
        sum += i;
    nf_send(pkt, sum);
}
