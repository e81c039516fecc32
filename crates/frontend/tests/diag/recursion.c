// test: check
#include <nicforge.h>
static int even(uint32_t n);
static int odd(uint32_t n) { return n == 0 ? 0 : even(n - 1); }
static int even(uint32_t n) { return n == 0 ? 1 : odd(n - 1); }

void net_recv(nf_pkt pkt)
{
    nf_send(pkt, even(nf_len(pkt)));
}
