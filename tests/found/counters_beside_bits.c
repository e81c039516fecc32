// Counters of replicas are added up where bit-fields lie beside them.
#include <nicforge.h>

struct state {
    uint64_t wide : 37;
    uint32_t count;
    uint16_t small : 3;
} __attribute__((packed));

NF_TABLE(array, states, uint32_t, struct state, 4);

void net_recv(nf_pkt pkt)
{
    nf_add(&states, nf_len(pkt) & 3, count, nf_len(pkt));
    nf_send(pkt, nf_port(pkt));
}
