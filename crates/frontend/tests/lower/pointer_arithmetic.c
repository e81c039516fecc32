// test: lower
#include <nicforge.h>
static int first(struct nf_mac *m) { return (m + 1)->b[0]; }
static int third(uint8_t *bytes) { return bytes[2]; }

void net_recv(nf_pkt pkt)
{
    struct nf_mac m;
    nf_extract(pkt, &m);
    nf_send(pkt, first(&m) + third(m.b));
}
