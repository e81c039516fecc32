// test: check
#include <nicforge.h>

void net_recv(nf_pkt pkt)
{
    uint8_t bytes[4];
    nf_extract(pkt, bytes);
    nf_send(pkt, 0);
}
