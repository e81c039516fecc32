// test: check
#include <nicforge.h>

void net_recv(nf_pkt pkt)
{
    if (nf_len(pkt) > 64)
        goto out;
    nf_pass(pkt);
    return;
out:
    nf_drop(pkt);
}
