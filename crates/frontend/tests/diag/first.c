// nicforge check
#include <nicforge.h>
int f(int x) { return f(x-1); }
void net_recv(nf_pkt pkt)
{
    float y = 2;
    int *p;
    f(3);
    for (int i = 0; ; i++) {}
    if (y > 2) nf_send(pkt, 0);
}
