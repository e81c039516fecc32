// test: build one_large_table.c --target u280
#include <nicforge.h>
NF_PORTS(1);
struct state {
    uint64_t words[8];
};
NF_TABLE(hash, flows, uint64_t, struct state, 1000000);
NF_TABLE(array, loads, uint32_t, uint32_t, 16);
void net_recv(nf_pkt pkt)
{
    struct state state;
    if (!nf_lookup(&flows, 7, &state)) {
        nf_drop(pkt, "unknown");
        return;
    }
    nf_add_value(&loads, 3, 1);
    nf_send(pkt, 0);
}
