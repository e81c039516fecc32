// test: build headers_round_and_round.c --target u280
#include <nicforge.h>
NF_PORTS(1);

void again(nf_pkt pkt, uint32_t left);

void net_recv(nf_pkt pkt) { nf_enqueue(again, pkt, nf_len(pkt) & 15); }

void again(nf_pkt pkt, uint32_t left)
{
    nf_emit(pkt, &left);
    if (left > 0)
        nf_enqueue(again, pkt, left - 1);
    else
        nf_send(pkt, 0);
}
