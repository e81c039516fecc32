// test: check
#include <nicforge.h>

NF_TIMER(NF_SEC(4000))
void slow(void) {}

NF_TIMER(NF_MS(0.5))
void half(void) {}

NF_TIMER(NF_MS(1))
void told(uint32_t number) { (void)number; }

NF_TIMER(NF_MS(1))
void tick(void) {}

NF_TIMER(NF_MS(1))
NF_TABLE(array, counts, uint32_t, uint32_t, 1);

NF_TIMER(NF_MS(1))
void net_recv(nf_pkt pkt)
{
    nf_drop(pkt);
}

void host_send(struct nf_flow flow)
{
    (void)flow;
    tick();
}
