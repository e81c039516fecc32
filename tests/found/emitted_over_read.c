// An emitted header as long as what was extracted is written over it when the packet leaves. What
// leaves with the packet, its port, was a member of the extracted value.
#include <nicforge.h>

struct word {
    uint32_t port;
};

void net_recv(nf_pkt pkt)
{
    struct word first = {0};
    struct word read = {0};
    uint32_t length = nf_len(pkt);
    if (!nf_store(pkt, 0, &first)) {
        nf_send(pkt, nf_port(pkt));
        return;
    }
    nf_emit(pkt, &length);
    if (nf_extract(pkt, &read)) {
    }
    nf_send(pkt, read.port & 1);
}
