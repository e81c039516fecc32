// test: check
#include <nicforge.h>
struct node {
    int value;
    struct node *next;
};

void net_recv(nf_pkt pkt)
{
    struct node n;
    nf_extract(pkt, &n);
    nf_drop(pkt);
}
