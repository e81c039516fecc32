// test: check
#include <nicforge.h>

struct flags {
    uint8_t version : 4, kind : 4;
    uint8_t rest;
};

void net_recv(nf_pkt pkt)
{
    struct nf_eth a, b;
    struct flags flags;
    uint8_t bytes[8];
    uint32_t n = nf_len(pkt);
    memcpy(&b, &a, n);
    memcpy(&b, &a, 100);
    memcpy(bytes, &a.type, 1);
    memcpy(bytes, &flags, 2);
    memcpy(bytes + 6, &a, 6);
    memset(bytes, n, 8);
    memset(pkt, 0, 4);
    nf_drop(pkt);
}
