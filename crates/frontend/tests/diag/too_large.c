// test: check
#include <nicforge.h>
struct big {
    uint8_t bytes[70000];
};

void net_recv(nf_pkt pkt)
{
    struct big b;
    uint64_t more[10000];
    nf_extract(pkt, &b);
    nf_drop(pkt);
}
