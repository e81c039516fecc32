// test: check
#include <nicforge.h>

void net_recv(nf_pkt pkt)
{
    static struct { int low, high; } count = {0, 1};
    extern int elsewhere;
    count.low++;
    elsewhere++;
    nf_send(pkt, count.high);
}
