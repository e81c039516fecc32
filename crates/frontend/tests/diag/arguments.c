// test: check
#include <nicforge.h>

void net_recv(nf_pkt pkt)
{
    nf_drop(pkt, "a", "b");

}
