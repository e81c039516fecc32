// nicforge build --emit air
// A macro's loop that runs once may carry a bound, which says nothing then.
#include <nicforge.h>
NF_PORTS(1);

void net_recv(nf_pkt pkt)
{
    uint32_t n = nf_len(pkt);
    do {
        NF_BOUND(8);
        n = n * 3;
    } while (0);
    do
        NF_BOUND(2);
    while (0);
    if (n > 100)
        nf_send(pkt, 0);
    else
        nf_drop(pkt);
}
