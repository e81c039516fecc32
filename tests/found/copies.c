/* memcpy, memset and memcmp with a number of bytes that varies. */
#include <nicforge.h>

struct header {
    uint8_t count, fill;
    uint8_t data[30];
    uint8_t more[20];
    uint32_t words[4];
};

static uint32_t append(uint8_t *to, uint32_t at, const uint8_t *from, uint32_t count)
{
    memcpy(to + at, from, count);
    return at + count;
}

void net_recv(nf_pkt pkt)
{
    struct header header;
    uint8_t out[64] = {};
    if (!nf_extract(pkt, &header)) {
        nf_drop(pkt, "short");
        return;
    }
    uint32_t n = append(out, 0, header.data, header.count & 15);
    n = append(out, n, header.more, 20);
    if (n > 60)
        n = 60;
    memset(out + n, header.fill, 64 - n);
    memset(header.more, header.fill, 5);
    int order = memcmp(header.data, header.more, header.count % 20);
    header.words[0] += order < 0 ? 1 : order > 0 ? 2 : 3;
    memcpy(&header.words[1], out + 1, header.fill & 7);
    memmove(header.data, header.words, header.fill & 15);
    nf_emit(pkt, &out);
    nf_emit(pkt, &header);
    nf_send(pkt, n & 1);
}
