// test: build unbounded_list.c --target u280
#include <nicforge.h>
NF_PORTS(1);
struct node {
    struct node *next;
    uint32_t value;
};
NF_TABLE(hash, lists, uint32_t, struct node, 16);
void net_recv(nf_pkt pkt) { nf_send(pkt, 0); }
