// test: check
#include <nicforge.h>

void net_recv(nf_pkt pkt)
{
    nf_send(pkt, (uint32_t)__builtin_object_size(&pkt, 0) + __builtin_readcyclecounter());
}
