// test: build tables_together.c --target u280
#include <nicforge.h>
NF_PORTS(1);
struct state {
    uint64_t words[8];
};
NF_TABLE(hash, there, uint64_t, struct state, 155000);
NF_TABLE(hash, back, uint64_t, struct state, 150000);
NF_TABLE(hash, services, uint64_t, uint32_t, 1000);
void net_recv(nf_pkt pkt)
{
    struct state one, other;
    uint32_t service;
    if (!nf_lookup(&there, 7, &one) || !nf_lookup(&back, 8, &other) || !nf_lookup(&services, 9, &service)) {
        nf_drop(pkt, "unknown");
        return;
    }
    nf_send(pkt, 0);
}
