// test: check
#include <nicforge.h>

void net_recv(nf_pkt pkt)
{
    for (;;) {
        if (nf_random() == 0)
            break;
    }
    nf_drop(pkt);
}
