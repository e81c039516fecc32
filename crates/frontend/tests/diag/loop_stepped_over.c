// test: check
// The variable is not what it is compared with when it is compared first.
#include <nicforge.h>

void net_recv(nf_pkt pkt)
{
    uint8_t i = 10, j = 4;
    uint32_t n = 0;
    do {
        n++;
        i++;
    } while (i != 10);
    for (;;) {
        j++;
        if (j == 4)
            break;
        n++;
    }
    for (j = 0;; j++) {
        n++;
        if (j >= nf_len(pkt)) {
            if (n & 1)
                continue;
            break;
        }
    }
    nf_send(pkt, n);
}
