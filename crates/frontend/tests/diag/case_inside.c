// test: check
#include <nicforge.h>

void net_recv(nf_pkt pkt)
{
    int x = 0;
    switch (nf_len(pkt)) {
    case 0:
        if (x) {
        case 1:
            x = 2;
        }
    }
    nf_send(pkt, x);
}
