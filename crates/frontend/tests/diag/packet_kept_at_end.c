// test: check
#include <nicforge.h>

void net_recv(nf_pkt pkt)
{
    switch (nf_len(pkt)) {
    case 0:
        nf_drop(pkt);
        break;
    case 1:
        nf_pass(pkt);
    }
}
