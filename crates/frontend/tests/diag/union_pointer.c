// test: check
// What is pointed to is why it is refused, not that it is pointed to.
#include <nicforge.h>

typedef uint16_t __be16;

struct address {
    union {
        uint32_t word;
        uint8_t bytes[4];
    };
    __be16 port;
};

static uint32_t word_of(const struct address *address)
{
    return address->word;
}

void net_recv(nf_pkt pkt)
{
    struct address address;
    nf_extract(pkt, &address);
    nf_send(pkt, word_of(&address));
}
