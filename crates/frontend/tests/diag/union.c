// test: check
#include <nicforge.h>
struct s {
    int kind;
    union { int a; short b; } u;
};

void net_recv(nf_pkt pkt)
{
    struct s v;
    nf_extract(pkt, &v);
    nf_drop(pkt);
}
