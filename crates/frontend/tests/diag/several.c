// test: check
#include <nicforge.h>
void unknown(int);

void net_recv(nf_pkt pkt)
{
    float f = 1;
    int n = 2;
    n += (int)f;
    if (f > 2) {
        goto done;
    }
    unknown(n);
    nf_send(pkt, n);
done:
    nf_drop(pkt);
}
