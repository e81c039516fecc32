// test: check
#include <nicforge.h>
#define READ(x) ((int)(x))
#define DOUBLE(x) ((x) * 2.0)

void net_recv(nf_pkt pkt)
{
    int x = READ(1.5);
    nf_send(pkt, DOUBLE(x));
}
