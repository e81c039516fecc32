// test: check
#include <nicforge.h>
struct none {};

void net_recv(nf_pkt pkt)
{
    struct none a;
    uint8_t b[0];
    nf_drop(pkt);
}
