// test: check
#include <nicforge.h>

void net_recv(nf_pkt pkt)
{
    unsigned __int128 x = 1;
    nf_drop(pkt);
}
