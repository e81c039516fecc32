/* What an extraction says is in a variable that gets another value, before the packet leaves and
 * its cursor is asked for. */
#include <nicforge.h>

NF_PORTS(2);

struct kind {
    uint8_t kind;
};

void net_recv(nf_pkt pkt)
{
    struct kind kind;
    bool there = nf_extract(pkt, &kind);

    if (kind.kind & 1)
        there = false;
    nf_send(pkt, there);
}
