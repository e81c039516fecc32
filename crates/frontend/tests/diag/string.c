// test: check
#include <nicforge.h>

static void log_all(nf_pkt pkt, const char *format)
{
    nf_log(format, nf_len(pkt));
}

void net_recv(nf_pkt pkt)
{
    const char *name = "x";
    int32_t wide = L"abc"[nf_len(pkt) & 1];
    char text[4] = "abc";
    log_all(pkt, "len {}");
    nf_emit(pkt, "abc");
    nf_drop(pkt, name);
}
