// test: check
#include <nicforge.h>
struct a { int x; };
struct b { int x; };

void net_recv(nf_pkt pkt)
{
    struct a a = {};
    struct b b = {};
    nf_host_msg(a);
    nf_host_msg(b);
    nf_host_msg(3);
    nf_drop(pkt);
}
