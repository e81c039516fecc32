// test: lower
// Members that lie over others: pieces of integers, whole ones, and an index that varies.
#include <nicforge.h>

typedef uint32_t __be32;

union address {
    __be32 words[2];
    uint8_t bytes[8];
    uint64_t whole;
};

static uint8_t byte_of(const union address *address, uint32_t at)
{
    return address->bytes[at & 7];
}

void net_recv(nf_pkt pkt)
{
    union address address = {.whole = 5};
    union {
        struct {
            uint8_t low : 4, high : 4;
        };
        uint8_t both;
    } parts;
    parts.both = (uint8_t)nf_len(pkt);
    parts.high += 1;
    address.bytes[2] = parts.low;
    address.bytes[3] = byte_of(&address, parts.high);
    nf_send(pkt, address.words[0] == 0);
}
