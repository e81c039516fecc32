// test: check
#include <nicforge.h>

void net_recv(nf_pkt pkt)
{
    uint32_t n = nf_len(pkt), sum = 0;
    for (uint32_t i = 0; i < n; i++)
        sum += i;
    while (sum > 10)
        sum = sum * 3 + 1;
    nf_send(pkt, sum);
}
