// test: check
#include <nicforge.h>
static void choose_left(nf_pkt pkt) { nf_send(pkt, 0); }
static void choose_right(nf_pkt pkt) { nf_send(pkt, 1); }
static void tell_out(uint32_t value) { nf_log("{}", value); }
static void tell_more(uint32_t value) { nf_log("more {}", value); }

NF_FIRES(one, choose, choose_left, choose_right)
static void choose(nf_pkt pkt)
{
    for (int i = 0; i < 4; i++) {
        if (nf_len(pkt) == i)
            continue;
        if (nf_len(pkt) < 60)
            break;
    }
    if (nf_len(pkt) > 100)
        choose_left(pkt);
    else
        choose_right(pkt);
}

NF_FIRES(all, tell, tell_out, tell_more)
static void tell(nf_pkt pkt)
{
    tell_out(1);
    if (nf_len(pkt) < 20)
        return;
    tell_more(2);
}

NF_FIRES(zero_or_one, loop, tell_out)
static void loop(nf_pkt pkt)
{
    for (uint32_t i = 0; i < (nf_len(pkt) & 7); i++)
        tell_out(i);
}

static void between(nf_pkt pkt)
{
    tell(pkt);
    loop(pkt);
}

NF_FIRES(together, fork, tell_out, tell_more)
static void fork(nf_pkt pkt)
{
    if (nf_port(pkt) == 1)
        between(pkt);
}
NF_FIRES(all, nobody, tell_out)

void net_recv(nf_pkt pkt)
{
    fork(pkt);
    choose(pkt);
}
