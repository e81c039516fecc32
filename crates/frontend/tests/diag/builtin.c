// nicforge check
#include <nicforge.h>

void net_recv(nf_pkt pkt)
{
    nf_send(pkt, __builtin_popcount(nf_len(pkt)));
}
