/* Macros as Linux has them: chosen by types, and by what the compiler knows. */
#include <nicforge.h>

#define min(x, y)                                                                                  \
    ({                                                                                             \
        typeof(x) min_x = (x);                                                                     \
        typeof(y) min_y = (y);                                                                     \
        (void)(&min_x == &min_y);                                                                  \
        min_x < min_y ? min_x : min_y;                                                             \
    })
#define GENMASK(high, low) ((~0u << (low)) & (~0u >> (31 - (high))))
#define FIELD_GET(mask, from)                                                                      \
    ((typeof(mask))(((from) & (mask)) >> (__builtin_ffsll((long long)(mask)) - 1)))
#define SIZE_OF(x) _Generic((x), uint8_t: 1, uint16_t: 2, uint32_t: 4, default: 8)
#define same(x, type) __builtin_types_compatible_p(typeof(x), type)

struct numbers {
    uint32_t a;
    uint16_t b;
    uint8_t c;
    int16_t d;
} __attribute__((packed));

void net_recv(nf_pkt pkt)
{
    struct numbers in;
    uint32_t sum = 0;
    if (!nf_extract(pkt, &in)) {
        nf_drop(pkt, "short");
        return;
    }
    __auto_type b = in.b;
    sum += min(in.a, 0x80000000u);
    sum += FIELD_GET(GENMASK(19, 4), in.a);
    sum += (uint32_t)(SIZE_OF(in.a) + SIZE_OF(in.b) * 8 + SIZE_OF(in.c) * 64 + SIZE_OF(in.d) * 512);
    sum += __builtin_choose_expr(same(in.b, uint16_t), b, 1 / 0);
    sum += __builtin_choose_expr(same(in.b, uint32_t), 7, _Generic(in.c, uint8_t: in.c));
    sum += (uint32_t)__builtin_abs(in.d) + (uint32_t)__builtin_labs(in.d - 40000L);
    in.a = sum;
    nf_emit(pkt, &in);
    nf_send(pkt, 0);
}
