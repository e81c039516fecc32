// test: check
#include <nicforge.h>
static nf_mac make(void) { nf_mac m = {}; return m; }

void net_recv(nf_pkt pkt)
{
    make().b[0] = 3;
    nf_drop(pkt);
}
