// test: check
#include <nicforge.h>
void *malloc(unsigned long);
void free(void *);

void net_recv(nf_pkt pkt)
{
    void *p = malloc(4);
    free(malloc(3));
    nf_drop(pkt);
}
