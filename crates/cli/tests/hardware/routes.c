// test: build routes.c --target u280
#include <nicforge.h>
NF_PORTS(1);
void net_recv(nf_pkt pkt)
{
    struct nf_fib_query query = {0};
    struct nf_fib_answer answer;
    if (!nf_fib_lookup(&query, &answer)) {
        nf_drop(pkt, "no route");
        return;
    }
    nf_send(pkt, 0);
}
