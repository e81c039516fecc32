// test: check
#include <nicforge.h>

void net_recv(nf_pkt pkt)
{
    const char *name = "x";
    char text[4] = "abc";
    nf_drop(pkt, name);
}
