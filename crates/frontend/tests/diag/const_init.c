// test: check
#include <nicforge.h>
static const int ports[2] = { 1, 2 };
struct name { char b; };
extern const int other;
static const struct name names[2] = { { 1 } };
extern const int missing[2];

void net_recv(nf_pkt pkt)
{
    nf_send(pkt, ports[0] + names[1].b + other + missing[1]);
}
