/* Loops that arguments end, words at offsets that vary, and strings: what hash functions do. */
#include <nicforge.h>

struct header {
    uint8_t data[37];
    uint8_t more[11];
    uint32_t words[6];
};

static const char letters[] = "ABCDEFGHIJKLMNOP";
static const uint8_t marks[2][8] = {{"\x01\0c"}, "\n\\\"z"};

static uint32_t blocks_behind(const void *key, int len, uint32_t seed)
{
    const uint8_t *data = (const uint8_t *)key;
    const int count = len / 4;
    const uint32_t *end = (const uint32_t *)(data + count * 4);
    uint32_t hash = seed;
    int i;
    for (i = -count; i; i++)
        hash = (hash << 5 | hash >> 27) ^ end[i];
    const uint8_t *tail = (const uint8_t *)(data + count * 4);
    switch (len & 3) {
    case 3:
        hash ^= tail[2] << 16;
        /* fallthrough */
    case 2:
        hash ^= tail[1] << 8;
        /* fallthrough */
    case 1:
        hash ^= tail[0];
    }
    return hash;
}

static uint64_t eight_at_once(const void *in, const size_t len, uint8_t *out)
{
    const unsigned char *next = (const unsigned char *)in;
    const unsigned char *end = next + len - (len % sizeof(uint64_t));
    uint64_t sum = 0x736f6d6570736575;
    for (; next != end; next += 8)
        sum = sum * 31 + *(const uint64_t *)next;
    for (unsigned i = 0; i < len % 8; i++)
        sum ^= (uint64_t)next[i] << 8 * i;
    for (int i = 0; i < 8; i++)
        out[i] = (uint8_t)(sum >> 8 * i);
    return sum;
}

static uint32_t bytes_of(const uint32_t *words, uint32_t from)
{
    const uint8_t *byte = (const uint8_t *)words;
    uint32_t sum = 0;
    for (int i = 0; i < 5; i++)
        sum = sum * 7 + byte[(from + i) % 24];
    return sum;
}

static void put_bytes(uint32_t *words, uint32_t at, uint8_t byte)
{
    ((uint8_t *)words)[at % 24] = byte;
    ((uint16_t *)words)[at % 12] ^= byte;
    ((uint64_t *)words)[at % 3] += byte;
}

void net_recv(nf_pkt pkt)
{
    struct header header;
    uint8_t out[8];
    char text[12] = "to be";
    if (!nf_extract(pkt, &header)) {
        nf_drop(pkt, "short");
        return;
    }
    uint32_t hash = blocks_behind(header.data, sizeof header.data, 7);
    hash ^= blocks_behind(&header, 18, hash) + blocks_behind(header.more, 11, 1);
    hash += (uint32_t)eight_at_once(header.data, 37, out);
    hash ^= (uint32_t)eight_at_once(header.data + 5, 16, header.more + 1);
    put_bytes(header.words, hash, out[hash & 7]);
    hash += bytes_of(header.words, hash) + bytes_of(header.words + 1, 3);
    text[hash % 12] ^= letters[hash % sizeof letters];
    for (uint32_t i = 0; i < sizeof text; i++)
        hash = hash * 31 + text[i] + marks[i & 1][i >> 1];
    const char *digits = "0123456789abcdef";
    header.more[3] = digits[hash & 15] + *digits + "xyz"[hash & 1];
    header.words[0] ^= hash;
    nf_emit(pkt, &header);
    nf_send(pkt, hash & 1);
}
