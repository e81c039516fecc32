// test: check
#include <nicforge.h>
NF_TABLE(array, stats, uint32_t, uint32_t, 16);

void net_recv(nf_pkt pkt)
{
    nf_buf_append_pkt(&stats, 1u, pkt, 10);
    nf_buf_clear(&stats, 1u);
    nf_drop(pkt);
}
