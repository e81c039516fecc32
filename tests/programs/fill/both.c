/* A table that both sides change: refused. */
#include <nicforge.h>

NF_TABLE(hash, sources, uint32_t, uint64_t, 64);

void more(nf_pkt pkt);

void net_recv(nf_pkt pkt)
{
    nf_update(&sources, nf_len(pkt), 1);
    nf_enqueue(more, pkt);
}

NF_ON(host);
void more(nf_pkt pkt)
{
    uint64_t n;
    nf_lookup(&sources, nf_len(pkt), &n);
    nf_update(&sources, nf_len(pkt), n + 1);
    nf_send(pkt, 0);
}
