// test: check
#include <nicforge.h>
static void tell_out(uint32_t value) { nf_log("{}", value); }
NF_FIRES(often, tell, tell_out)
NF_FIRES(all, tell)

void net_recv(nf_pkt pkt)
{
    tell_out(1);
    nf_drop(pkt);
}
