// GCC warns where the complement of a small unsigned number is compared.
#include <nicforge.h>

void net_recv(nf_pkt pkt)
{
    uint8_t byte = -nf_csum_payload(pkt, 0, 20);
    uint16_t half = nf_csum_payload(pkt, 0, 20);
    if (~byte) {
        nf_send(pkt, ~half != 5);
        return;
    }
    nf_drop(pkt);
}
