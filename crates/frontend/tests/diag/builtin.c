// test: check
#include <nicforge.h>

void net_recv(nf_pkt pkt)
{
    nf_send(pkt, __builtin_parity(nf_len(pkt)));
}
