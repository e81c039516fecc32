/* The compiler's functions on bits, exits in the middle of loops, ranges that arguments have. */
#include <nicforge.h>

struct header {
    uint64_t a;
    uint32_t b;
    uint16_t c;
    uint8_t d;
    uint8_t bytes[33];
};

static int table[4] = {7, 11, 13, 17};

static uint64_t counts(uint64_t x, uint32_t y)
{
    uint64_t sum = __builtin_popcountll(x) + 3 * __builtin_parity(y) + 5 * __builtin_parityl(x);
    if (x)
        sum = sum * 67 + __builtin_ctzll(x) * 65 + __builtin_clzl(x);
    if (y)
        sum = sum * 67 + __builtin_ctz(y) * 33 + __builtin_clz(y);
    sum = sum * 67 + __builtin_ffs((int)y) * 35 + __builtin_ffsll((int64_t)x);
    return sum * 67 + __builtin_clrsb((int)y) * 33 + __builtin_clrsbll((int64_t)x);
}

static uint64_t rotated(const struct header *header)
{
    uint64_t sum = __builtin_rotateleft64(header->a, header->b);
    sum ^= __builtin_rotateright32(header->b, header->d & 31);
    sum += __builtin_rotateleft16(header->c, 5);
    return sum + __builtin_rotateright8(header->d, header->c & 7);
}

/* What is left of a length, as block functions have it. */
static uint32_t tail(const uint8_t *bytes, uint64_t length)
{
    uint32_t sum = 0;
    length &= 31;
    while (__builtin_expect(length >= 8, 1)) {
        sum = sum * 31 + bytes[0] + bytes[7];
        bytes += 8;
        length -= 8;
    }
    if (length >= 4) {
        sum = sum * 31 + bytes[3];
        bytes += 4;
        length -= 4;
    }
    while (!!(length > 0)) {
        sum = sum * 31 + *bytes++;
        --length;
    }
    return sum;
}

static uint32_t blocks(const uint8_t *bytes, uint64_t count)
{
    uint32_t sum = count;
    uint64_t whole = count & ~(uint64_t)15;
    for (uint64_t i = 0; i < whole; i++)
        sum = sum * 31 + bytes[i];
    count -= whole;
    bytes += whole;
    if (count)
        for (uint64_t i = 0; i < count; i++)
            sum = sum * 37 + bytes[i];
    return sum;
}

static uint8_t *first_of(uint8_t *bytes, uint8_t value)
{
    if (sizeof(void *) == 2)
        return bytes + value;
    bytes[0] = value;
    return bytes;
}

void net_recv(nf_pkt pkt)
{
    struct header header;
    if (!nf_extract(pkt, &header)) {
        nf_drop(pkt, "short");
        return;
    }
    header.a ^= counts(header.a, header.b) + counts(header.b & 1, header.d) + rotated(&header);
    header.b += tail(header.bytes, header.a) + tail(header.bytes + 1, 29);
    header.b ^= blocks(header.bytes, 33) + blocks(header.bytes, header.c & 31);
    uint8_t round;
    for (round = 1;; ++round) {
        header.b += table[round & 3];
        if (round == 9 || header.b == 5)
            break;
        header.b = header.b * 3 + round;
    }
    uint32_t left = header.c;
    while (1) {
        left >>= 1;
        if (!(left > 3))
            break;
        header.b ^= left;
        if (left & 256)
            continue;
        header.b++;
    }
    first_of(header.bytes, header.d);
    nf_emit(pkt, &header);
    nf_send(pkt, header.b & 1);
}
