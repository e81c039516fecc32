// test: check
#include <nicforge.h>

struct hello { nf_mac dst, src; nf_be16 type; };

void later(nf_pkt pkt);

void net_recv(nf_pkt pkt)
{
    struct hello hello = {.type = NF_HTONS(0x88b5)};
    nf_pkt copy = nf_new(hello);
    nf_enqueue(later, nf_new(hello));
    nf_to_host(nf_new(hello));
    nf_send(nf_new(hello.type), 1);
    nf_send(nf_new(hello, 2, 3), 1);
    nf_send(nf_new(hello, hello), 1);
    nf_drop(pkt);
}

void later(nf_pkt pkt)
{
    nf_drop(pkt);
}
