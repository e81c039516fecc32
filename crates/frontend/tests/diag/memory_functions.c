// nicforge check
#include <nicforge.h>

void net_recv(nf_pkt pkt)
{
    struct nf_eth a, b;
    nf_extract(pkt, &a);
    __builtin_memcpy(&b, &a, sizeof a);
    __builtin_memset(&a, 0, sizeof a);
    if (__builtin_memcmp(&a, &b, sizeof a) == 0)
        nf_drop(pkt);
    else
        nf_pass(pkt);
}
