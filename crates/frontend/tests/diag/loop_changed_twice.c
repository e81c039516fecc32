// test: check
#include <nicforge.h>

void net_recv(nf_pkt pkt)
{
    int sum = 0;
    for (int i = 0; i < 10; i++) {
        if (sum & 1)
            i--;
        sum += i;
    }
    nf_send(pkt, sum);
}
