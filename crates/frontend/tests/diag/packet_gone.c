// test: check
#include <nicforge.h>

void net_recv(nf_pkt pkt)
{
    nf_send(pkt, 0);
    nf_log("sent {}", nf_len(pkt));
}
