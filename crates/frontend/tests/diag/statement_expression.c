// test: check
#include <nicforge.h>

void net_recv(nf_pkt pkt)
{
    int x = ({
        int y = 1;
        if (nf_len(pkt) > 100) {
            nf_send(pkt, 1);
            return;
        }
        y + 1;
    });
    nf_send(pkt, x);
}
