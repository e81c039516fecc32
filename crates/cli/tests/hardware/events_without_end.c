// test: build events_without_end.c --target u280
#include <nicforge.h>
NF_PORTS(1);
NF_TABLE(array, seen, uint32_t, uint64_t, 16);

void twice(uint32_t left);

void net_recv(nf_pkt pkt)
{
    nf_enqueue(twice, nf_len(pkt) & 15);
    nf_send(pkt, 0);
}

/* Each leads to two more, which wait beside all others of the packet. */
void twice(uint32_t left)
{
    nf_add_value(&seen, left, 1);
    if (left > 0) {
        nf_enqueue(twice, left - 1);
        nf_enqueue(twice, left / 2);
    }
}
