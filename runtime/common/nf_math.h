/* SPDX-License-Identifier: 0BSD
 *
 * nf_math.h (common) - what every runtime computes in the same way. Whoever includes it has u64 and
 * its like, and NF_INLINE.
 */
#ifndef NF_MATH_H
#define NF_MATH_H

/* ---- Integers where C leaves the result undefined
 * -------------------------------------------------------- */

NF_INLINE u64 nf_udiv(u64 a, u64 b) { return b ? a / b : 0; }
NF_INLINE u64 nf_urem(u64 a, u64 b) { return b ? a % b : a; }
/* In unsigned numbers, where the smallest number over -1 is no overflow; BPF before version 4
 * divides no others. */
NF_INLINE s64 nf_sdiv(s64 a, s64 b)
{
    u64 q = nf_udiv(a < 0 ? -(u64)a : (u64)a, b < 0 ? -(u64)b : (u64)b);
    return (a < 0) != (b < 0) ? -(s64)q : (s64)q;
}
NF_INLINE s64 nf_srem(s64 a, s64 b)
{
    u64 r = nf_urem(a < 0 ? -(u64)a : (u64)a, b < 0 ? -(u64)b : (u64)b);
    return a < 0 ? -(s64)r : (s64)r;
}
NF_INLINE u64 nf_shl(u64 a, u64 by, u32 bits) { return by < bits ? a << by : 0; }
NF_INLINE u64 nf_shr(u64 a, u64 by, u32 bits) { return by < bits ? a >> by : 0; }
NF_INLINE s64 nf_sar(s64 a, u64 by, u32 bits) { return a >> (by < bits ? by : bits - 1); }

/* ---- Checksums, hashes, random numbers
 * ------------------------------------------------------------------- */

NF_INLINE u32 nf_fold(u64 sum)
{
    sum = (sum & 0xffffffff) + (sum >> 32);
    sum = (sum & 0xffff) + (sum >> 16);
    sum = (sum & 0xffff) + (sum >> 16);
    sum = (sum & 0xffff) + (sum >> 16);
    return (u32)sum;
}

/* Every bit of x reaches every bit of the result (MurmurHash3's last step). */
NF_INLINE u32 nf_finish_hash(u32 x)
{
    x = (x ^ x >> 16) * 0x85ebca6b;
    x = (x ^ x >> 13) * 0xc2b2ae35;
    return x ^ x >> 16;
}

/* See ir::io::random. */
NF_INLINE u32 nf_random_at(u64 seed, u64 n)
{
    u64 z = seed + (n + 1) * 0x9e3779b97f4a7c15ull;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ z >> 27) * 0x94d049bb133111ebull;
    return (u32)((z ^ z >> 31) >> 32);
}

#endif
