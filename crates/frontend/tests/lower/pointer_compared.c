// test: lower
#include <nicforge.h>
static int first(struct nf_mac *m)
{
    if (m == 0)
        return 0;
    return m->b[0];
}

void net_recv(nf_pkt pkt)
{
    struct nf_mac m;
    nf_send(pkt, first(&m));
}
