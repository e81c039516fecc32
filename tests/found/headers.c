/* What headers of others do: addresses as integers, alignment, packing, bit tricks, spare things.
 */
#include <nicforge.h>

#define AS_BYTES(pointer, n) ((void *)((uintptr_t)(pointer) + (n)))
#define FLOOR(value, n) (__typeof__(value))((value) & (~((__typeof__(value))((n) - 1))))
#define SWAPPED(x)                                                                                 \
    (__builtin_constant_p(x)                                                                       \
         ? (uint32_t)((x) << 24 | (x) >> 24 | ((x) & 0xff00) << 8 | ((x) >> 8 & 0xff00))           \
         : in_assembly(x))

struct address {
    uint8_t bytes[6];
} __attribute__((aligned(2)));

struct frame {
    struct address to, from;
    uint16_t type;
} __attribute__((aligned(2)));

typedef uint64_t __attribute__((aligned(8))) word;

struct timed {
    uint16_t kind __attribute__((aligned(4)));
    word at;
};

#pragma pack(push, 1)
struct tight {
    uint8_t kind;
    uint32_t number;
    struct timed timed;
};
#pragma pack(pop)

struct loose {
    uint8_t kind;
    uint32_t number;
};

struct header {
    struct frame frame;
    struct tight tight;
    struct loose loose;
    uint8_t rest[13];
};

static inline uint32_t in_assembly(uint32_t x) { return __builtin_bswap32(x); }

static inline uint32_t raw_sum(const void *bytes, size_t length, uint32_t sum)
{
    const void *end;
    for (end = AS_BYTES(bytes, FLOOR(length, sizeof(uint16_t))); bytes != end;
         bytes = AS_BYTES(bytes, sizeof(uint16_t))) {
        uint16_t value;
        memcpy(&value, bytes, sizeof(uint16_t));
        sum += value;
    }
    if (length % 2) {
        uint16_t left = 0;
        memcpy(&left, end, 1);
        sum += left;
    }
    return sum;
}

static uint32_t of_bits(uint32_t input)
{
    uint32_t sum = 0;
    for (uint32_t map = input; map; map &= (map - 1))
        sum = sum * 33 + __builtin_ctz(map);
    uint16_t rest = (uint16_t)input;
    while (rest != 0) {
        sum ^= rest;
        rest = rest & (rest - 1);
    }
    return sum;
}

void net_recv(nf_pkt pkt)
{
    struct header header;
    if (!nf_extract(pkt, &header)) {
        nf_drop(pkt, "short");
        return;
    }
    uint32_t sum = raw_sum(&header.frame, sizeof header.frame, 0);
    sum = raw_sum(header.rest, 13, sum) + raw_sum(header.rest + 1, header.loose.kind & 6, 1);
    struct address kept = header.frame.to;
    header.frame.to = header.frame.from;
    header.frame.from = kept;
    header.tight.number ^= SWAPPED(sum) + of_bits(header.tight.number);
    header.tight.timed.at += header.tight.timed.kind;
    header.loose.number += sizeof(struct tight) * 100 + sizeof(struct loose);
    uint8_t *last = (uint8_t *)AS_BYTES(header.rest, 12);
    *last ^= (uint8_t)sum;
    memcpy(&header.loose.number, header.rest, 3);
    nf_emit(pkt, &header);
    nf_send(pkt, sum & 1);
}
