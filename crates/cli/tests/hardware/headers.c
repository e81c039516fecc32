// test: build headers.c --target u280
#include <nicforge.h>
NF_PORTS(1);
struct wide {
    uint8_t bytes[1400];
};
void net_recv(nf_pkt pkt)
{
    struct wide wide;
    if (!nf_extract(pkt, &wide)) {
        nf_drop(pkt, "short");
        return;
    }
    nf_emit(pkt, &wide);
    nf_send(pkt, 0);
}
