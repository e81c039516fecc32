// test: check
// Integers in network order as Linux's headers declare them.
#include <nicforge.h>

typedef uint16_t __be16;
typedef uint32_t __be32;

enum { SYN = (__be32)0x0200 };

struct ports {
    __be16 source;
    __be16 dest;
    __be32 sequence;
};

void net_recv(nf_pkt pkt)
{
    struct ports ports;
    nf_extract(pkt, &ports);
    if (ports.source == nf_htons(53))
        nf_drop(pkt, "an answer");
    else if (ports.dest == 53)
        nf_drop(pkt, "a question");
    else if (ports.sequence & SYN)
        nf_send(pkt, ports.dest == SYN);
    else
        nf_send(pkt, nf_len(pkt) == SYN);
}
