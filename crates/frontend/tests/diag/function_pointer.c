// test: check
// No function of this file is where these lead.
#include <nicforge.h>

NF_TABLE(array, places, uint32_t, uint64_t, 4);

typedef int (*op)(int);

void net_recv(nf_pkt pkt)
{
    op unset;
    uint64_t place;

    nf_lookup(&places, 0, &place);
    nf_send(pkt, unset(1) + ((op)place)(2));
}
