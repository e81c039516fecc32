// test: check
#include <nicforge.h>
struct inner { int x; };
struct stat { uint32_t bytes[4]; struct inner inner; bool flag; };
NF_TABLE(array, stats, uint32_t, struct stat, 16);

void net_recv(nf_pkt pkt)
{
    uint32_t n = nf_len(pkt);
    nf_add(&stats, 0u, bytes[n & 3], 1);
    nf_add(&stats, 0u, inner, 1);
    nf_add_value(&stats, 0u, 1);
    nf_add(&stats, 0u, flag, 1);
    nf_drop(pkt);
}
