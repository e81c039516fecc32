// test: check
#include <nicforge.h>

NF_PORTS(1);

struct words {
    uint32_t w[200];
};

struct bytes {
    uint8_t b[800];
};

void net_recv(nf_pkt pkt)
{
    uint64_t own[100] = {0};
    struct words words = *(struct words *)own;
    struct bytes bytes = *(struct bytes *)own;
    *(struct bytes *)own = bytes;
    nf_emit(pkt, &words);
    nf_send(pkt, 0);
}
