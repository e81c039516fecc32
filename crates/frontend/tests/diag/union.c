// test: check
#include <nicforge.h>

union bits {
    uint16_t whole;
    uint16_t low : 4;
};

struct long_one {
    union {
        uint8_t bytes[601];
        uint32_t words[150];
    };
};

union counted {
    uint32_t pair[2];
    struct {
        uint32_t packets;
        uint32_t bytes;
    } by;
};

NF_TABLE(array, counters, uint32_t, union counted, 4);

void net_recv(nf_pkt pkt)
{
    union bits bits = {.whole = 1};
    struct long_one one = {};
    nf_add(&counters, 0, pair[1], 1);
    nf_add(&counters, 0, by.bytes, 1);
    nf_send(pkt, bits.low ^ one.bytes[0]);
}
