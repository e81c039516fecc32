// test: check
#include <nicforge.h>

void net_recv(nf_pkt pkt)
{
    int i = 0, sum = 0;
    while (i < 10) {
        if (sum & 1)
            continue;
        i++;
    }
    nf_send(pkt, sum);
}
