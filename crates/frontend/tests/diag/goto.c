// test: check
#include <nicforge.h>

void net_recv(nf_pkt pkt)
{
    uint32_t n = 0;
again:
    n++;
    if (n < nf_len(pkt))
        goto again;
    if (n == 7)
        goto inside;
    if (n > 3) {
    inside:
        nf_drop(pkt);
        return;
    }
    while (n < 9) {
        if (nf_len(pkt) == 70)
            goto next;
        n++;
    next:;
    }
    while (n < 90) {
        if (nf_len(pkt) == 70)
            goto once;
        n++;
    once:
        n++;
    }
    nf_pass(pkt);
}
