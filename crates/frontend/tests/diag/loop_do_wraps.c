// test: check
#include <nicforge.h>

void net_recv(nf_pkt pkt)
{
    uint8_t i = nf_len(pkt);
    do
        i++;
    while (i < 10);
    nf_send(pkt, i);
}
