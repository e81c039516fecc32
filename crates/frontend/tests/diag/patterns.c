// test: check
#include <nicforge.h>

void net_recv(nf_pkt pkt)
{
    static const char named[] = "a";
    uint32_t sum = nf_regex(pkt, 100, "abc\na(b");
    sum += nf_regex(pkt, 100, "ab*\nb*");
    sum += nf_regex(pkt, 100, "a(?=b)");
    sum += nf_regex(pkt, 100, "\x90");
    sum += nf_regex(pkt, 100, "a.{100}b");
    sum += nf_regex(pkt, 100, named);
    nf_send(pkt, sum & 1);
}
