// test: check
#include <nicforge.h>

void net_recv(nf_pkt pkt)
{
    uint32_t n = nf_len(pkt);
    uint8_t bytes[n];
    nf_drop(pkt);
}
