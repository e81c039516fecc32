// test: check
#include <nicforge.h>

void net_recv(nf_pkt pkt)
{
    static int count;
    count++;
    nf_send(pkt, count);
}
