// test: build assembly.c --target u280
#include <nicforge.h>
NF_PORTS(1);
void net_recv(nf_pkt pkt)
{
    asm volatile("nop");
    nf_send(pkt, 0);
}
