// test: check
// Members that are not the same otherwise: other types, bit-fields, another order of bytes.
#include <nicforge.h>

struct typed {
    union {
        struct { uint32_t a; uint32_t b; };
        struct { uint32_t a; int32_t b; } pair;
    };
};

struct parted {
    union {
        struct { uint8_t a : 4, b : 4; };
        struct { uint8_t a : 4, b : 4; } halves;
    };
};

struct ordered {
    union {
        uint16_t here;
        nf_be16 there;
    };
};

struct longer {
    union {
        struct { uint32_t a; };
        struct { uint32_t a; uint32_t b; } pair;
    };
};

void net_recv(nf_pkt pkt)
{
    struct typed typed;
    struct parted parted;
    struct ordered ordered;
    struct longer longer;
    nf_extract(pkt, &typed);
    nf_extract(pkt, &parted);
    nf_extract(pkt, &ordered);
    nf_extract(pkt, &longer);
    nf_send(pkt, 0);
}
