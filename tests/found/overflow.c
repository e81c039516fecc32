/* Arithmetic that says whether its result fits, with operands and results of all widths and signs,
 * near their limits. */
#include <nicforge.h>

struct numbers {
    uint64_t u;
    int64_t s;
    uint32_t v;
    int32_t t;
    uint8_t w;
    int8_t r;
    uint16_t pick;
} __attribute__((packed));

struct answer {
    uint64_t u64;
    int64_t s64;
    uint32_t u32;
    int32_t s32;
    int16_t s16;
    uint8_t u8;
    uint32_t over;
} __attribute__((packed));

/* Many bytes are random; what lies at the limits is rare among them. */
static uint64_t near(uint64_t value, uint16_t pick)
{
    switch (pick & 7) {
    case 0:
        return 0;
    case 1:
        return ~0ull;
    case 2:
        return 1ull << 63;
    case 3:
        return (1ull << 63) - 1;
    case 4:
        return value >> 32;
    case 5:
        return value & 7;
    default:
        return value;
    }
}

void net_recv(nf_pkt pkt)
{
    struct numbers in;
    struct answer out = {0};
    uint32_t over = 0;
    if (!nf_extract(pkt, &in)) {
        nf_drop(pkt, "short");
        return;
    }
    in.u = near(in.u, in.pick);
    in.s = (int64_t)near((uint64_t)in.s, in.pick >> 3);
    switch (in.pick >> 6 & 3) {
    case 0:
        over |= (uint32_t)__builtin_add_overflow(in.u, in.u, &out.u64) << 0;
        over |= (uint32_t)__builtin_add_overflow(in.s, in.u, &out.s64) << 1;
        over |= (uint32_t)__builtin_add_overflow(in.v, in.t, &out.u32) << 2;
        over |= (uint32_t)__builtin_add_overflow(in.s, in.r, &out.s32) << 3;
        over |= (uint32_t)__builtin_add_overflow(in.w, in.r, &out.s16) << 4;
        over |= (uint32_t)__builtin_add_overflow(in.w, in.w, &out.u8) << 5;
        break;
    case 1:
        over |= (uint32_t)__builtin_sub_overflow(in.u, in.s, &out.u64) << 0;
        over |= (uint32_t)__builtin_sub_overflow(in.s, in.u, &out.s64) << 1;
        over |= (uint32_t)__builtin_sub_overflow(in.v, in.t, &out.u32) << 2;
        over |= (uint32_t)__builtin_sub_overflow(in.t, in.s, &out.s32) << 3;
        over |= (uint32_t)__builtin_sub_overflow(in.r, in.w, &out.s16) << 4;
        over |= (uint32_t)__builtin_sub_overflow(in.w, in.r, &out.u8) << 5;
        break;
    case 2:
        over |= (uint32_t)__builtin_mul_overflow(in.u, in.s, &out.u64) << 0;
        over |= (uint32_t)__builtin_mul_overflow(in.s, in.s, &out.s64) << 1;
        over |= (uint32_t)__builtin_mul_overflow(in.v, in.t, &out.u32) << 2;
        over |= (uint32_t)__builtin_mul_overflow(in.t, in.r, &out.s32) << 3;
        over |= (uint32_t)__builtin_mul_overflow(in.r, in.w, &out.s16) << 4;
        over |= (uint32_t)__builtin_mul_overflow(in.w, in.r, &out.u8) << 5;
        break;
    default:
        over |= (uint32_t)__builtin_uadd_overflow(in.v, (uint32_t)in.u, &out.u32) << 0;
        over |= (uint32_t)__builtin_smul_overflow(in.t, in.r, &out.s32) << 1;
        over |= (uint32_t)__builtin_ssubll_overflow(in.s, in.t, (long long *)&out.s64) << 2;
        over |= (uint32_t)__builtin_umulll_overflow(in.u, in.v, (unsigned long long *)&out.u64)
                << 3;
        break;
    }
    out.over = over;
    nf_emit(pkt, &out);
    nf_send(pkt, 0);
}
