// test: check
#include <nicforge.h>

void net_recv(nf_pkt pkt)
{
    asm volatile("nop");
    nf_drop(pkt);
}
