// test: check
#include <nicforge.h>
int lookup(int);

void net_recv(nf_pkt pkt)
{
    nf_send(pkt, lookup(3));
}
