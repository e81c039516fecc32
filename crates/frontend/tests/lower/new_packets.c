// test: lower
#include <nicforge.h>

struct hello { nf_mac dst, src; nf_be16 type; };

void net_recv(nf_pkt pkt)
{
    struct hello hello = {.type = NF_HTONS(0x88b5)};
    nf_send(nf_new(hello), 1);
    nf_send(nf_new(hello, (uint8_t)nf_len(pkt)), nf_port(pkt));
    nf_drop(pkt, "answered");
}
