// test: check
#include <nicforge.h>
struct a {
    int x __attribute__((aligned(16)));
};
struct b {
    uint8_t x : 3;
    uint8_t : 0;
};

void net_recv(nf_pkt pkt)
{
    struct a x;
    struct b y;
    nf_extract(pkt, &x);
    nf_extract(pkt, &y);
    nf_drop(pkt);
}
