// test: check
#include <nicforge.h>

void net_recv(nf_pkt pkt)
{
    int sum = 0;
    for (uint8_t i = 0; i < 256; i++)
        sum += i;
    for (uint8_t i = 10; i >= 0; i--)
        sum += i;
    nf_send(pkt, sum);
}
