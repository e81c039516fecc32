// test: lower
// Orders of bytes as POSIX has them, by headers that say nothing of them in their types; and a
// function of the program's own with such a name.
#include <nicforge.h>

extern uint16_t htons(uint16_t host);
extern uint32_t ntohl(uint32_t network);

struct ports {
    uint16_t source;
    uint16_t dest;
    uint32_t sequence;
};

static uint32_t htonl(uint32_t host)
{
    return host + 1;
}

void net_recv(nf_pkt pkt)
{
    struct ports ports;
    if (!nf_extract(pkt, &ports) || ports.dest == htons(53)) {
        nf_drop(pkt, "none");
        return;
    }
    ports.sequence = htonl(ntohl(ports.sequence));
    nf_emit(pkt, &ports);
    nf_send(pkt, 0);
}
