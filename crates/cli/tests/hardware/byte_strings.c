// test: build byte_strings.c --target u280
#include <nicforge.h>
NF_PORTS(1);
NF_BUF_TABLE(hash, streams, uint32_t, uint32_t, 65536, 16384);
void net_recv(nf_pkt pkt)
{
    nf_update(&streams, 1, 2);
    nf_buf_append_pkt(&streams, 1, pkt, 64);
    nf_send(pkt, 0);
}
