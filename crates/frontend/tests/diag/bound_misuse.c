// test: check
#include <nicforge.h>

void net_recv(nf_pkt pkt)
{
    uint32_t n = nf_len(pkt), i = 0;
    NF_BOUND(3);
    while (n) {
        i++;
        NF_BOUND(4);
        n -= i;
    }
    while (n) {
        NF_BOUND(n);
        n--;
    }
    while (n) {
        NF_BOUND(0);
        n--;
    }
    nf_drop(pkt);
}
