/* SPDX-License-Identifier: 0BSD
 *
 * nf_rt.h (xdp) - what generated C for the Linux kernel's XDP hook is written against. Users
 * include nicforge.h, never this file.
 *
 * NF_MODE: 0 live, 1 record time and randomness of every event, 2 replay them (nicforge verify).
 */
#ifndef NF_RT_XDP_H
#define NF_RT_XDP_H

#include <linux/bpf.h>
#include <stdbool.h>
#include <bpf/bpf_helpers.h>

#include "../common/nf_abi.h"

#ifndef NF_MODE
#define NF_MODE 0
#endif

/* A generated program names what it reads even where this target finds no use for it: a header that
 * is emitted and then dropped, the entry pointer of a lookup whose value nobody asks for. */
#pragma clang diagnostic ignored "-Wunused-variable"
#pragma clang diagnostic ignored "-Wunused-but-set-variable"
/* Structs are packed so that their bytes are the same everywhere; where we run, any address may be
 * read. */
#pragma clang diagnostic ignored "-Waddress-of-packed-member"

/* A bit-field takes the low bits of what is set, constants included. */
#pragma clang diagnostic ignored "-Wbitfield-constant-conversion"
/* Constants end up where the source had variables: a comparison or a mask may have one outcome
 * only. */
#pragma clang diagnostic ignored "-Wtautological-compare"
#pragma clang diagnostic ignored "-Wunused-const-variable"

typedef __u8 u8;
typedef __u16 u16;
typedef __u32 u32;
typedef __u64 u64;
typedef __s8 s8;
typedef __s16 s16;
typedef __s32 s32;
typedef __s64 s64;

#define NF_INLINE static __attribute__((always_inline, unused))
/* A handler of a stage that has several: a function of its own for the verifier, with a stack of
 * its own. */
#define NF_APART __attribute__((noinline))
/* Locals whose address goes to the kernel are stored eight bytes at a time. */
#define NF_LOCAL __attribute__((aligned(8)))
/* How a struct is read where it lies in a packet or a map: with wide accesses, whatever its
 * address. */
#define NF_AT __attribute__((aligned(8), may_alias))

/* ---- What the loader sets and reads
 * ---------------------------------------------------------------------- */

struct nf_config {
    u32 ports;
    u32 ifindex[16];
};

struct nf_event {
    u64 now;
    u64 seed;
    u32 in_port;
    u32 out_port;
    u32 out;
    u32 reason;
};

extern const volatile struct nf_config nf_config;
extern struct nf_event nf_event;
extern u64 nf_drops[];
extern u64 nf_refused[];

/* ---- Memory
 * ---------------------------------------------------------------------------------------------- */

/* Copies with the width of the parts, whatever the address: the kernel allows unaligned access
 * where it runs us, but clang would read byte by byte if it knew that the pointer may be odd. The
 * alignment sits in the type of the access, not in an assumption about the pointer: data and data +
 * 14 cannot both be multiples of eight. */
#define NF_WIDE(type) __typeof__(type) __attribute__((aligned(8), may_alias))
#define NF_GET(to, from)                                                                           \
    do {                                                                                           \
        typedef NF_WIDE(to) nf_wide;                                                               \
        if (sizeof(to) > NF_FAR)                                                                   \
            nf_copy_far(&(to), (from), sizeof(to));                                                \
        else                                                                                       \
            __builtin_memcpy(&(to), (const nf_wide *)(from), NF_NEAR(sizeof(to)));                 \
    } while (0)
/* Larger values are copied in a loop: clang has no function to call for them. */
#define NF_FAR 512
#define NF_NEAR(size) ((size) > NF_FAR ? 0 : (size))
#define NF_PUT(to, from) NF_MOVE((void *)(to), &(from), sizeof(from))
/* Copies a small part in words: clang keeps structs in registers if all copies of their parts are
 * words. */
#define NF_MOVE(to, from, size)                                                                    \
    do {                                                                                           \
        if ((size) <= 16)                                                                          \
            nf_move((to), (from), (size));                                                         \
        else if ((size) > NF_FAR)                                                                  \
            nf_copy_far((to), (from), (size));                                                     \
        else                                                                                       \
            __builtin_memcpy((nf_wide_bytes *)(to), (const nf_wide_bytes *)(from), NF_NEAR(size)); \
    } while (0)

typedef u8 nf_wide_bytes __attribute__((aligned(8), may_alias));
typedef u16 nf_word16 __attribute__((may_alias));
typedef u32 nf_word32 __attribute__((may_alias));
typedef u64 nf_word64 __attribute__((may_alias));

/* size is a constant. */
NF_INLINE void nf_move(void *to, const void *from, u32 size)
{
    u32 at = 0;
#pragma unroll
    for (int i = 0; i < 2; i++)
        if (at + 8 <= size) {
            *(nf_word64 *)(to + at) = *(const nf_word64 *)(from + at);
            at += 8;
        }
    if (at + 4 <= size) {
        *(nf_word32 *)(to + at) = *(const nf_word32 *)(from + at);
        at += 4;
    }
    if (at + 2 <= size) {
        *(nf_word16 *)(to + at) = *(const nf_word16 *)(from + at);
        at += 2;
    }
    if (at < size)
        *(u8 *)(to + at) = *(const u8 *)(from + at);
}

/* For large values; size is a constant. Pinned, or clang would make it the call that it cannot
 * make. */
NF_INLINE void nf_copy_far(void *to, const void *from, u32 size)
{
    u64 at = 0;
#pragma clang loop unroll(disable)
    for (; at + 8 <= size; at += 8) {
        asm volatile("" : "+r"(at));
        *(nf_word64 *)(to + at) = *(const nf_word64 *)(from + at);
    }
    nf_move(to + size / 8 * 8, from + size / 8 * 8, size % 8);
}

NF_INLINE void nf_clear_far(void *to, u32 size)
{
    u64 at = 0;
#pragma clang loop unroll(disable)
    for (; at + 8 <= size; at += 8) {
        asm volatile("" : "+r"(at));
        *(nf_word64 *)(to + at) = 0;
    }
    for (u32 last = size / 8 * 8; last < size; last++)
        *(u8 *)(to + last) = 0;
}

/* Zeroes a variable whose elements are then set one by one. The zero comes from memory, so that the
 * verifier does not know it: else each number of elements would leave a state of its own, and what
 * follows would be walked once for each.
 */
extern u64 nf_zero;
#define NF_CLEAR(x)                                                                                \
    do {                                                                                           \
        u64 nf_z = *(volatile u64 *)&nf_zero;                                                      \
        u32 nf_at = 0;                                                                             \
        _Pragma("unroll") for (; nf_at + 8 <= sizeof(x); nf_at += 8) *                             \
            (nf_word64 *)((u8 *)&(x) + nf_at) = nf_z;                                              \
        _Pragma("unroll") for (; nf_at < sizeof(x); nf_at++)((u8 *)&(x))[nf_at] = nf_z;            \
    } while (0)
/* Adds zero in a way that the verifier does not see: it takes x for any number then, which many
 * ways have in common. */
#define NF_FORGET(x) ((x) += *(volatile u64 *)&nf_zero)
/* x, which is any number to the verifier. */
NF_INLINE u32 nf_unknown(u32 x) { return x + *(volatile u32 *)&nf_zero; }

/* Leaves a loop after eight million trips, which no loop has. The verifier takes states of
 * different trips for one here (may_goto, Linux 6.9). */
#define NF_MAY_BREAK                                                                               \
    if (({                                                                                         \
            __label__ out, on;                                                                     \
            bool ends = false;                                                                     \
            asm goto("may_goto %l0" : : : : out);                                                  \
            goto on;                                                                               \
        out:                                                                                       \
            ends = true;                                                                           \
        on:                                                                                        \
            ends;                                                                                  \
        }))                                                                                        \
    break
/* Keeps a value in its register, so that the verifier sees a check and the access it covers as one
 * pointer. */
#define NF_PIN(x) asm volatile("" : "+r"(x))
/* A packet offset the verifier knows to be below 32 KiB. */
#define NF_BOUND_OFFSET(x) asm volatile("%0 &= 0x7fff" : "+r"(x))

/* Bytes of the frame. Pinned, or clang would subtract and spill the lower halves of the two
 * pointers, which the verifier does not take. */
NF_INLINE u32 nf_frame_length(const u8 *data, const u8 *end)
{
    u64 length = end - data;
    NF_PIN(length);
    return length;
}

/* The same for functions that have no pointers of their own. */
NF_INLINE u32 nf_whole_length(struct xdp_md *ctx)
{
    u8 *data = (u8 *)(long)ctx->data;
    u8 *end = (u8 *)(long)ctx->data_end;
    NF_PIN(data);
    NF_PIN(end);
    return nf_frame_length(data, end);
}

/* i, which is below len, in a way that the verifier sees too: what clang proved about i it would
 * not check again. */
NF_INLINE u64 nf_index(u64 i, u64 len)
{
    NF_PIN(i);
    return i < len ? i : 0;
}

/* x as a number of its own: what the verifier learns about it does not reach where it came from. */
NF_INLINE u64 nf_unlinked(u64 x)
{
    asm volatile("%0 += 0" : "+r"(x));
    return x;
}

/* ---- Runs: what loops over bytes do together
 * -------------------------------------------------------------
 *
 * n is at most `most`, a constant. If n is none, it is pinned before it is compared, so that the
 * verifier sees the bound of the very number that the loops end at. The verifier takes words on the
 * stack only at their own multiples: the first byte of `to` (or `a`) is `skew` bytes behind a
 * multiple of eight, and words of `width` bytes lie well in both arrays. Both are constants. Single
 * bytes and short words lead to the first multiple of `width`, and away from the last one.
 * Addresses are pinned, or clang would keep every byte of a small array in a place of its own, and
 * the stack has no room.
 */

#define NF_HEAD1(skew) ((skew) & 1)
#define NF_HEAD2(skew) (((skew) + NF_HEAD1(skew)) & 2)
#define NF_HEAD4(skew) (((skew) + NF_HEAD1(skew) + NF_HEAD2(skew)) & 4)
/* Runs of a constant number of words are written out up to this one. */
#define NF_RUN_WRITTEN_OUT 32
/* Indices are pinned, or clang would make the loop a call that it cannot make. */
#define NF_RUN_STEP(type, STEP)                                                                    \
    do {                                                                                           \
        STEP(type);                                                                                \
        at += sizeof(type);                                                                        \
    } while (0)
#define NF_RUN_WORD(width, STEP)                                                                   \
    do {                                                                                           \
        if ((width) == 8)                                                                          \
            NF_RUN_STEP(nf_word64, STEP);                                                          \
        else if ((width) == 4)                                                                     \
            NF_RUN_STEP(nf_word32, STEP);                                                          \
        else if ((width) == 2)                                                                     \
            NF_RUN_STEP(nf_word16, STEP);                                                          \
        else                                                                                       \
            NF_RUN_STEP(u8, STEP);                                                                 \
    } while (0)
#define NF_RUN(n, skew, width, STEP)                                                               \
    do {                                                                                           \
        if ((width) > 1 && NF_HEAD1(skew) && at + 1 <= (n))                                        \
            NF_RUN_STEP(u8, STEP);                                                                 \
        if ((width) > 2 && NF_HEAD2(skew) && at + 2 <= (n))                                        \
            NF_RUN_STEP(nf_word16, STEP);                                                          \
        if ((width) > 4 && NF_HEAD4(skew) && at + 4 <= (n))                                        \
            NF_RUN_STEP(nf_word32, STEP);                                                          \
        if (__builtin_constant_p(n) && (n) / (width) <= NF_RUN_WRITTEN_OUT) {                      \
            _Pragma("unroll") for (; at + (width) <= (n);) NF_RUN_WORD(width, STEP);               \
        } else {                                                                                   \
            _Pragma("clang loop unroll(disable)") for (; at + (width) <= (n);)                     \
            {                                                                                      \
                NF_PIN(at);                                                                        \
                NF_RUN_WORD(width, STEP);                                                          \
            }                                                                                      \
        }                                                                                          \
        if ((width) > 4 && at + 4 <= (n))                                                          \
            NF_RUN_STEP(nf_word32, STEP);                                                          \
        if ((width) > 2 && at + 2 <= (n))                                                          \
            NF_RUN_STEP(nf_word16, STEP);                                                          \
        if ((width) > 1 && at + 1 <= (n))                                                          \
            NF_RUN_STEP(u8, STEP);                                                                 \
    } while (0)

NF_INLINE void nf_copy_run(u8 *to, const u8 *from, u64 n, u32 most, u32 skew, u32 width)
{
    u64 at = 0;
    NF_PIN(to);
    NF_PIN(from);
    if (!__builtin_constant_p(n)) {
        NF_PIN(n);
        if (n > most)
            return;
    }
#define NF_COPY_STEP(type) *(type *)(to + at) = *(const type *)(from + at)
    NF_RUN(n, skew, width, NF_COPY_STEP);
}

NF_INLINE void nf_fill_run(u8 *to, u8 byte, u64 n, u32 most, u32 skew)
{
    u64 at = 0, word = byte * 0x0101010101010101ull;
    NF_PIN(to);
    if (!__builtin_constant_p(n)) {
        NF_PIN(n);
        if (n > most)
            return;
    }
#define NF_FILL_STEP(type) *(type *)(to + at) = (type)word
    NF_RUN(n, skew, 8, NF_FILL_STEP);
}

/* All bits in which any two bytes differ. */
NF_INLINE u8 nf_differ_run(const u8 *a, const u8 *b, u64 n, u32 most, u32 skew, u32 width)
{
    u64 at = 0, differ = 0;
    NF_PIN(a);
    NF_PIN(b);
    if (!__builtin_constant_p(n)) {
        NF_PIN(n);
        if (n > most)
            return 0;
    }
/* Pinned, or clang would read all words before it compares the first two. */
#define NF_DIFFER_STEP(type)                                                                       \
    differ |= *(const type *)(a + at) ^ *(const type *)(b + at);                                   \
    NF_PIN(differ)
    NF_RUN(n, skew, width, NF_DIFFER_STEP);
    differ |= differ >> 32;
    differ |= differ >> 16;
    return differ | differ >> 8;
}

/* A number of bytes that are equal, from the first one on: to the word with a difference, or all.
 */
NF_INLINE u64 nf_same_run(const u8 *a, const u8 *b, u64 n, u32 most, u32 skew, u32 width)
{
    u64 at = 0;
    NF_PIN(a);
    NF_PIN(b);
    if (!__builtin_constant_p(n)) {
        NF_PIN(n);
        if (n > most)
            return 0;
    }
#define NF_SAME_STEP(type)                                                                         \
    if (*(const type *)(a + at) != *(const type *)(b + at))                                        \
    return at
    NF_RUN(n, skew, width, NF_SAME_STEP);
    return at;
}

/* Runs from the frame and to it: false, and nothing done, if it ends before. The kernel compares
 * with the frame's end, but takes offsets of 32 bits. */
NF_INLINE bool nf_load_run(struct xdp_md *ctx, u64 off, void *to, u64 n, u32 most)
{
    NF_PIN(n);
    if (n == 0)
        return true;
    return n <= most && off < 0x10000 && bpf_xdp_load_bytes(ctx, off, to, n) == 0;
}

NF_INLINE bool nf_store_run(struct xdp_md *ctx, u64 off, const void *from, u64 n, u32 most)
{
    NF_PIN(n);
    if (n == 0)
        return true;
    return n <= most && off < 0x10000 && bpf_xdp_store_bytes(ctx, off, (void *)from, n) == 0;
}

#include "../common/nf_math.h"

/* ---- Checksums and hashes
 * -------------------------------------------------------------------------------- */

/* Ones-complement sum of n bytes in network order, added to sum (RFC 1071): words are added as they
 * lie in memory and swapped once at the end. n is a constant. */
NF_INLINE u32 nf_csum_bytes(u32 sum, const void *bytes, u32 n)
{
    const u8 *p = bytes;
    u64 total = 0;
#pragma unroll
    for (u32 i = 0; i + 4 <= n; i += 4)
        total += *(const nf_word32 *)(p + i);
    if (n & 2)
        total += *(const nf_word16 *)(p + (n & ~3u));
    if (n & 1)
        total += p[n - 1];
    return nf_fold((u64)sum + __builtin_bswap16(nf_fold(total)));
}

/* What a byte does to the checksum that so many bytes behind it find. */
extern const u32 nf_crc32c[8][256];

/* One byte's part. opaque masks the index out of clang's sight: of an integer in a register clang
 * may know that it is one byte where the verifier does not, and would leave the mask out. Bytes of
 * structs come from memory, where both know. */
NF_INLINE u32 nf_crc_part(u32 behind, u32 byte, bool opaque)
{
    u64 at = (u8)byte;
    if (opaque)
        asm volatile("%0 &= 0xff" : "+r"(at));
    return nf_crc32c[behind][at];
}

/* CRC32C of four more bytes: their four look-ups do not wait for one another (Kounavis and Berry,
 * "Novel Table Lookup-Based Algorithms for High-Performance CRC Generation", 2008). */
NF_INLINE u32 nf_crc_word(u32 behind, u32 word, bool opaque)
{
    return nf_crc_part(behind + 3, word, opaque) ^ nf_crc_part(behind + 2, word >> 8, opaque) ^
           nf_crc_part(behind + 1, word >> 16, opaque) ^ nf_crc_part(behind, word >> 24, opaque);
}

NF_INLINE u32 nf_word_of(const u8 *p) { return p[0] | p[1] << 8 | p[2] << 16 | (u32)p[3] << 24; }

/* CRC32C of eight more bytes. */
NF_INLINE u32 nf_crc_words(u32 crc, const u8 *p, bool opaque)
{
    return nf_crc_word(4, crc ^ nf_word_of(p), opaque) ^ nf_crc_word(0, nf_word_of(p + 4), opaque);
}

/* See ir::io::hash. n is a constant. Of many bytes clang would read all before the first look-up,
 * and the stack would not hold them: these go through a loop, and pinning keeps it one. */
NF_INLINE u32 nf_hash_with(u32 seed, const void *bytes, u32 n, bool opaque)
{
    const u8 *p = bytes;
    u32 crc = nf_crc_word(0, ~0u ^ seed, opaque), i = 0;
    if (n > 32) {
        u64 at = 0;
#pragma clang loop unroll(disable)
        for (; at + 8 <= n; at += 8) {
            NF_PIN(at);
            crc = nf_crc_words(crc, p + at, opaque);
        }
        i = n / 8 * 8;
    } else {
#pragma unroll
        for (; i + 8 <= n; i += 8)
            crc = nf_crc_words(crc, p + i, opaque);
    }
    if (i + 4 <= n) {
        crc = nf_crc_word(0, crc ^ nf_word_of(p + i), opaque);
        i += 4;
    }
#pragma unroll
    for (; i < n; i++)
        crc = crc >> 8 ^ nf_crc_part(0, crc ^ p[i], opaque);
    return nf_finish_hash(~crc ^ seed);
}

NF_INLINE u32 nf_hash_bytes(u32 seed, const void *bytes, u32 n)
{
    return nf_hash_with(seed, bytes, n, false);
}
NF_INLINE u32 nf_hash_int(u32 seed, const void *bytes, u32 n)
{
    return nf_hash_with(seed, bytes, n, true);
}

/* ---- Time and randomness: fields of the event
 * ------------------------------------------------------------ */

#if NF_MODE == 1
struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(max_entries, 1 << 20);
    __type(key, u32);
    __type(value, u64[2]);
} nf_record SEC(".maps");
extern u64 nf_recorded;
#endif

#if NF_MODE == 1 && defined(NF_STAGES)
/* Which events a full table refused: with several replicas that is the target's choice, which the
 * interpreter repeats. The event's number, the table's, and the digest of the key. */
struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(max_entries, 1 << 16);
    __type(key, u32);
    __type(value, u32[3]);
} nf_refusals SEC(".maps");
extern u64 nf_refusals_count;

/* The event that this CPU is at: programs on one CPU do not interrupt each other. */
struct {
    __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
    __uint(max_entries, 1);
    __type(key, u32);
    __type(value, u32);
} nf_current SEC(".maps");

NF_INLINE void nf_at_event(u32 number)
{
    u32 zero = 0;
    u32 *current = bpf_map_lookup_elem(&nf_current, &zero);
    if (current)
        *current = number;
}
#endif

struct nf_clock {
    u64 now;
    u64 seed;
#if NF_MODE == 1 && defined(NF_STAGES)
    /* Number of the event, and the replicas it has passed. */
    u32 number;
    u32 route;
#endif
};

NF_INLINE struct nf_clock nf_clock(bool time, bool random)
{
    struct nf_clock clock = {0};
#if NF_MODE == 2
    clock.now = nf_event.now;
    clock.seed = nf_event.seed;
#else
    if (time)
        clock.now = bpf_ktime_get_ns();
    if (random)
        clock.seed = (u64)bpf_get_prandom_u32() << 32 | bpf_get_prandom_u32();
#endif
#if NF_MODE == 1
    u32 at = __sync_fetch_and_add(&nf_recorded, 1);
#ifdef NF_STAGES
    clock.number = at;
    nf_at_event(at);
#endif
    u64 *entry = bpf_map_lookup_elem(&nf_record, &at);
    if (entry) {
        entry[0] = clock.now;
        entry[1] = clock.seed;
    }
#endif
    (void)time;
    (void)random;
    return clock;
}

/* ---- Where packets go
 * ------------------------------------------------------------------------------------ */

struct {
    __uint(type, BPF_MAP_TYPE_DEVMAP);
    __uint(max_entries, 16);
    __type(key, u32);
    __type(value, u32);
} nf_ports SEC(".maps");

NF_INLINE u32 nf_in_port(struct xdp_md *ctx, u32 ports)
{
#if NF_MODE == 2
    (void)ctx;
    (void)ports;
    return nf_event.in_port;
#else
    u32 ifindex = ctx->ingress_ifindex;
#pragma unroll
    for (u32 port = 1; port < ports; port++)
        if (ifindex == nf_config.ifindex[port])
            return port;
    return 0;
#endif
}

/* Out by the port the packet came in by. */
NF_INLINE int nf_send_back(void)
{
#if NF_MODE == 2
    nf_event.out = NF_FATE_SEND;
    nf_event.out_port = nf_event.in_port;
#endif
    return XDP_TX;
}

NF_INLINE int nf_send(u32 port)
{
#if NF_MODE == 2
    nf_event.out = NF_FATE_SEND;
    nf_event.out_port = port;
    return XDP_TX;
#else
    return bpf_redirect_map(&nf_ports, port, 0);
#endif
}

NF_INLINE int nf_pass(void)
{
#if NF_MODE == 2
    nf_event.out = NF_FATE_STACK;
#endif
    return XDP_PASS;
}

NF_INLINE int nf_drop(u32 reason)
{
#if NF_MODE == 2
    nf_event.out = NF_FATE_DROP;
    nf_event.reason = reason;
#endif
    __sync_fetch_and_add(&nf_drops[reason], 1);
    return XDP_DROP;
}

/* The headers that were emitted do not fit in front of the packet, or it shrank under its own
 * headers. */
NF_INLINE int nf_no_room(u32 reason)
{
    __sync_fetch_and_add(&nf_drops[reason], 1);
#if NF_MODE == 2
    nf_event.out = NF_FATE_FAILED;
#endif
    return XDP_DROP;
}

/* ---- Headers whose place is not constant
 * ----------------------------------------------------------------- */

/* Emitted headers wait here when paths that emit differently meet. */
#define NF_STAGED_BYTES 256

#ifdef NF_STAGING

struct nf_staged {
    u8 bytes[4 * NF_STAGED_BYTES];
    u32 used;
};

struct {
    __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
    __uint(max_entries, 1);
    __type(key, u32);
    __type(value, struct nf_staged);
} nf_staged_headers SEC(".maps");

NF_INLINE u8 *nf_staging(void)
{
    u32 zero = 0;
    return bpf_map_lookup_elem(&nf_staged_headers, &zero);
}

/* Through memory, so that the verifier forgets how many there are: else loops that stage would be
 * walked once for each number of bytes that any of them may leave. */
NF_INLINE void nf_staged_more(u8 *staged, u32 *used, u32 size)
{
    volatile u32 *known = &((struct nf_staged *)staged)->used;
    *known = *used + size;
    *used = *known;
}

/* size is a constant of at most three times NF_STAGED_BYTES. */
NF_INLINE void nf_stage(u8 *staged, u32 *used, const void *bytes, u32 size)
{
    u64 at = *used;
    asm volatile("%0 &= 0xff" : "+r"(at));
    __builtin_memcpy((nf_wide_bytes *)(staged + at), (const nf_wide_bytes *)bytes, size);
    nf_staged_more(staged, used, size);
}

/* Bytes of an array: as many as the run may have are copied, and n of them count. */
NF_INLINE void nf_stage_run(u8 *staged, u32 *used, const u8 *from, u64 n, u32 most, u32 skew)
{
    u64 at = *used;
    asm volatile("%0 &= 0xff" : "+r"(at));
    nf_copy_run(staged + at, from, most, most, skew, 8);
    nf_staged_more(staged, used, n);
}

/* Bytes of the frame; false, and nothing done, if it ends before. */
NF_INLINE bool nf_stage_frame(struct xdp_md *ctx, u64 off, u8 *staged, u32 *used, u64 n, u32 most)
{
    u64 at = *used;
    asm volatile("%0 &= 0xff" : "+r"(at));
    if (!nf_load_run(ctx, off, staged + at, n, most))
        return false;
    nf_staged_more(staged, used, n);
    return true;
}

/* Puts the headers at the frame's start: one call of the kernel instead of a check and a store for
 * each byte. */
NF_INLINE bool nf_unstage(struct xdp_md *ctx, const u8 *staged, u32 used)
{
    u64 size = used;
    NF_PIN(size);
    if (size == 0)
        return true;
    if (size > NF_STAGED_BYTES)
        return false;
    return bpf_xdp_store_bytes(ctx, 0, (void *)staged, size) == 0;
}

#endif

/* ---- Stages on several CPUs
 * ------------------------------------------------------------------------------ */

#ifdef NF_STAGES
/* The CPU of each replica. */
extern const volatile u32 nf_cpus[];

struct nf_stage_count {
    u64 verdicts[5];
    u64 handed;
};

/* One for each stage, the last for the program that spreads packets over the first stage's
 * replicas. */
struct {
    __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
    __uint(max_entries, NF_STAGES + 1);
    __type(key, u32);
    __type(value, struct nf_stage_count);
} nf_stage_counts SEC(".maps");

#if NF_MODE == 1
#define NF_TRIP_MEMBERS u32 nf_number, nf_route;
#define NF_TRIP_TO(made, clock, replica)                                                           \
    do {                                                                                           \
        (made).nf_number = (clock).number;                                                         \
        (made).nf_route = (clock).route * 67 + (u32)(replica) + 1;                                 \
    } while (0)
#define NF_TRIP_FROM(clock, made)                                                                  \
    do {                                                                                           \
        (clock).number = (made).nf_number;                                                         \
        (clock).route = (made).nf_route;                                                           \
        nf_at_event((made).nf_number);                                                             \
    } while (0)
/* A packet that leaves says which event it comes from and which way it took. */
#define NF_LEAVE(ctx, clock, verdict) (nf_mark((ctx), &(clock)), (verdict))

NF_INLINE void nf_mark(struct xdp_md *ctx, const struct nf_clock *clock)
{
    if (bpf_xdp_adjust_meta(ctx, -8))
        return;
    u32 *meta = (u32 *)(long)ctx->data_meta;
    if ((u8 *)(meta + 2) > (u8 *)(long)ctx->data)
        return;
    meta[0] = clock->number;
    meta[1] = clock->route;
}
#else
#define NF_TRIP_MEMBERS
#define NF_TRIP_TO(made, clock, replica)                                                           \
    do {                                                                                           \
    } while (0)
#define NF_TRIP_FROM(clock, made)                                                                  \
    do {                                                                                           \
    } while (0)
#define NF_LEAVE(ctx, clock, verdict) (verdict)
#endif

/* What a packet brings to a replica of the first stage. */
#define NF_CLOCK_MEMBERS                                                                           \
    u64 nf_now;                                                                                    \
    u64 nf_seed;
#define NF_CLOCK_TO(made, clock)                                                                   \
    do {                                                                                           \
        (made).nf_now = (clock).now;                                                               \
        (made).nf_seed = (clock).seed;                                                             \
    } while (0)
#define NF_CLOCK_FROM(clock, made)                                                                 \
    do {                                                                                           \
        (clock).now = (made).nf_now;                                                               \
        (clock).seed = (made).nf_seed;                                                             \
    } while (0)

/* Packets that full queues turned away, by the id of the queue's map; the loader makes the entries.
 */
struct {
    __uint(type, BPF_MAP_TYPE_HASH);
    __uint(max_entries, NF_STAGES);
    __type(key, u32);
    __type(value, u64);
} nf_turned_away SEC(".maps");

/* trace_xdp_cpumap_enqueue(int map_id, unsigned int processed, unsigned int drops, int to_cpu) */
SEC("raw_tp/xdp_cpumap_enqueue")
int nf_enqueued(struct bpf_raw_tracepoint_args *ctx)
{
    u32 map = ctx->args[0];
    u64 *turned_away = bpf_map_lookup_elem(&nf_turned_away, &map);
    if (turned_away)
        __sync_fetch_and_add(turned_away, (u32)ctx->args[2]);
    return 0;
}

/* Counts a verdict of a stage. */
NF_INLINE int nf_counted(u32 stage, int verdict)
{
    struct nf_stage_count *count = bpf_map_lookup_elem(&nf_stage_counts, &stage);
    u64 at = verdict;
    NF_PIN(at);
    if (count && at < 5)
        count->verdicts[at]++;
    return verdict;
}

/* Takes an event's values out of the packet's metadata, and the metadata off the packet. */
#define NF_TAKE(ctx, event)                                                                        \
    do {                                                                                           \
        u8 *nf_meta = (u8 *)(long)(ctx)->data_meta;                                                \
        if (nf_meta + sizeof(event) > (u8 *)(long)(ctx)->data)                                     \
            return XDP_ABORTED;                                                                    \
        __builtin_memcpy(&(event), (nf_wide_bytes *)nf_meta, sizeof(event));                       \
        if (bpf_xdp_adjust_meta((ctx), sizeof(event)))                                             \
            return XDP_ABORTED;                                                                    \
    } while (0)

#ifdef NF_ROOM
/* A large event that was taken: the stack is for what a handler makes of it. */
struct nf_event_bytes {
    u64 words[32];
};

struct {
    __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
    __uint(max_entries, 1);
    __type(key, u32);
    __type(value, struct nf_event_bytes);
} nf_event_rooms SEC(".maps");

NF_INLINE void *nf_event_room(void)
{
    u32 zero = 0;
    return bpf_map_lookup_elem(&nf_event_rooms, &zero);
}
#endif

/* Which of its stage's events a packet carries. */
NF_INLINE u32 nf_kind_of(struct xdp_md *ctx)
{
    u32 *meta = (u32 *)(long)ctx->data_meta;
    return (u8 *)(meta + 1) > (u8 *)(long)ctx->data ? ~0u : *meta;
}

/* Hands a packet on to the queue of the CPU that a replica runs on. size is a constant. */
NF_INLINE int nf_hand(struct xdp_md *ctx, u32 stage, void *queue, u64 replica, const void *event,
                      u32 size)
{
    if (bpf_xdp_adjust_meta(ctx, -(int)size))
        return XDP_ABORTED;
    u8 *meta = (u8 *)(long)ctx->data_meta;
    if (meta + size > (u8 *)(long)ctx->data)
        return XDP_ABORTED;
    __builtin_memcpy((nf_wide_bytes *)meta, (const nf_wide_bytes *)event, size);
    int verdict = bpf_redirect_map(queue, nf_cpus[replica], XDP_ABORTED);
    struct nf_stage_count *count = bpf_map_lookup_elem(&nf_stage_counts, &stage);
    if (count && verdict == XDP_REDIRECT)
        count->handed++;
    return verdict;
}

#ifdef NF_PROCESS
#include "nf_process.h"
#endif

/* Mixes bytes into a key (Steele, Lea and Flood's finaliser, SplitMix64). */
NF_INLINE u64 nf_mix_word(u64 key, u64 word)
{
    key = (key ^ word) * 0x9e3779b97f4a7c15ull;
    key = (key ^ key >> 30) * 0xbf58476d1ce4e5b9ull;
    return key ^ key >> 27;
}

/* size is a constant. */
NF_INLINE u64 nf_mix(u64 key, const void *bytes, u32 size)
{
    const u8 *p = bytes;
#pragma unroll
    for (u32 i = 0; i < size; i++)
        key = nf_mix_word(key, p[i]);
    return key;
}

/* Bytes of the frame; those behind its end are zero. off and size are constants. */
NF_INLINE u64 nf_mix_frame(u64 key, const u8 *data, const u8 *end, u32 off, u32 size)
{
#pragma unroll
    for (u32 i = 0; i < size; i++) {
        u64 byte = 0;
        if (data + off + i + 1 <= end)
            byte = data[off + i];
        key = nf_mix_word(key, byte);
    }
    return key;
}

/* The replica of a key: equal keys go to the same one. */
NF_INLINE u32 nf_replica(u64 key, u32 replicas)
{
    return (u64)(u32)(nf_mix_word(0, key) >> 16) * replicas >> 32;
}

/* Any replica: in turn by what the sending stage has handed on from this CPU. */
NF_INLINE u32 nf_in_turn(u32 sender, u32 replicas)
{
    struct nf_stage_count *count = bpf_map_lookup_elem(&nf_stage_counts, &sender);
    return count ? count->handed % replicas : 0;
}
#endif

#if defined(NF_STAGES) && defined(NF_STAGING)
/* Puts the headers that wait in front of the frame, for the stage that takes it. */
NF_INLINE bool nf_stage_in_front(struct xdp_md *ctx, const u8 *staged, u32 used)
{
    if (bpf_xdp_adjust_head(ctx, -(int)used))
        return false;
    return nf_unstage(ctx, staged, used);
}

/* Takes them from there again. */
NF_INLINE bool nf_restage(struct xdp_md *ctx, u8 *staged, u32 used)
{
    u64 size = used;
    NF_PIN(size);
    if (size == 0)
        return true;
    if (size > NF_STAGED_BYTES || bpf_xdp_load_bytes(ctx, 0, staged, size))
        return false;
    return bpf_xdp_adjust_head(ctx, (int)size) == 0;
}
#endif

#ifdef NF_FRAME_SUM
/* A copy of the bytes to sum: the helper takes memory whose size the verifier knows, and 512 bytes
 * at a time. */
struct nf_sum_area {
    u8 bytes[4096 + 512];
};

struct {
    __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
    __uint(max_entries, 1);
    __type(key, u32);
    __type(value, struct nf_sum_area);
} nf_sum_area SEC(".maps");

/* Ones-complement sum of at most want bytes of the frame from off on, added to sum. */
NF_INLINE u32 nf_csum_frame(struct xdp_md *ctx, u64 off, u32 sum, u32 want)
{
    u32 zero = 0;
    struct nf_sum_area *area = bpf_map_lookup_elem(&nf_sum_area, &zero);
    u32 total = nf_whole_length(ctx);
    u32 n = total > off ? total - off : 0;
    if (n > want)
        n = want;
    if (!area || n == 0 || n > 4096)
        return nf_fold(sum);
    u64 last = n - 1;
    asm volatile("%0 &= 4095" : "+r"(last));
    if (bpf_xdp_load_bytes(ctx, off, area->bytes, last + 1))
        return nf_fold(sum);
    u64 behind = n;
    asm volatile("%0 &= 0x1fff" : "+r"(behind));
    if (behind <= 4096)
        *(u32 *)(area->bytes + behind) = 0;
    u64 words = 0;
    for (u32 chunk = 0; chunk < 8; chunk++) {
        u32 start = chunk * 512;
        if (start >= n)
            break;
        u64 size = n - start < 512 ? (n - start + 3) & ~3u : 512;
        asm volatile("%0 &= 0x3ff" : "+r"(size));
        if (size > 512)
            break;
        words += (u32)bpf_csum_diff(0, 0, (void *)(area->bytes + start), size, 0);
    }
    return nf_fold((u64)sum + __builtin_bswap16(nf_fold(words)));
}
#endif

/* ---- The program's host side
 * ----------------------------------------------------------------------------- */

/* Largest packet a record carries. */
#define NF_RECORD_BYTES 4096

struct nf_record_head {
    u32 kind;
    u32 length;
    u64 addr;
};

#ifdef NF_HOST_RING
struct {
    __uint(type, BPF_MAP_TYPE_RINGBUF);
    __uint(max_entries, 1 << 22);
} nf_host SEC(".maps");

struct nf_scratch {
    struct nf_record_head head;
    u8 bytes[2 * NF_RECORD_BYTES];
};

struct {
    __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
    __uint(max_entries, 1);
    __type(key, u32);
    __type(value, struct nf_scratch);
} nf_scratch SEC(".maps");

/* A record with what was emitted, if anything, and n bytes of the frame from off on: as many as a
 * record carries at most. */
NF_INLINE void nf_record_frame(struct xdp_md *ctx, u32 kind, u64 addr, const u8 *staged, u32 used,
                               u32 off, u32 n)
{
    u32 zero = 0;
    struct nf_scratch *scratch = bpf_map_lookup_elem(&nf_scratch, &zero);
    if (!scratch)
        return;
    u64 at = used;
#ifdef NF_STAGING
    if (staged)
        __builtin_memcpy(scratch->bytes, staged, NF_STAGED_BYTES);
#else
    (void)staged;
#endif
    NF_PIN(at);
    if (at > NF_STAGED_BYTES)
        return;
    scratch->head.kind = kind;
    scratch->head.length = (u32)at + n;
    scratch->head.addr = addr;
    u64 last = n - 1;
    if (n > 0) {
        /* The verifier sees 1 to NF_RECORD_BYTES, which n is. */
        asm volatile("%0 &= %1" : "+r"(last) : "i"(NF_RECORD_BYTES - 1));
        if (bpf_xdp_load_bytes(ctx, off, scratch->bytes + at, last + 1))
            return;
    }
    u64 whole = at + n;
    asm volatile("%0 &= %1" : "+r"(whole) : "i"(2 * NF_RECORD_BYTES - 1));
    bpf_ringbuf_output(&nf_host, scratch, sizeof(scratch->head) + whole, 0);
}

/* A record with up to want bytes of the frame from off on. */
NF_INLINE void nf_host_frame(struct xdp_md *ctx, u32 kind, u64 addr, u32 off, u32 want)
{
    u32 total = nf_whole_length(ctx);
    u32 n = total > off ? total - off : 0;
    if (n > want)
        n = want;
    if (n > NF_RECORD_BYTES)
        n = NF_RECORD_BYTES;
    nf_record_frame(ctx, kind, addr, 0, 0, off, n);
}

/* A record with a copy of the packet: what was emitted, then the frame from off on. What is longer
 * than a record is not copied. */
NF_INLINE void nf_copy_frame(struct xdp_md *ctx, u32 kind, u64 addr, const u8 *staged, u32 used,
                             u32 off)
{
    u32 total = nf_whole_length(ctx);
    u32 n = total > off ? total - off : 0;
    if (n <= NF_RECORD_BYTES)
        nf_record_frame(ctx, kind, addr, staged, used, off, n);
}
#endif

NF_INLINE int nf_to_host(void)
{
#if NF_MODE == 2
    nf_event.out = NF_FATE_HOST;
#endif
    return XDP_DROP;
}

/* ---- Tables
 * ---------------------------------------------------------------------------------------------- */

/* The address of a key or value that is an expression. */
#define NF_ADDR(type, value) (&(type){value})
/* The same where it is kept in a place beside the stack. */
#define NF_KEEP(place, value) ((place) = (value), &(place))

#if NF_MODE == 1 && defined(NF_STAGES)
/* Notes a refused insert of a key of n bytes, which is a constant; of an array it is null. */
NF_INLINE void nf_note_refusal(u32 table, const void *key, u32 n)
{
    u32 zero = 0;
    u32 digest = 2166136261; /* FNV-1a of 32 bits */
    if (key) {
#pragma unroll
        for (u32 i = 0; i < n; i++)
            digest = (digest ^ ((const u8 *)key)[i]) * 16777619;
    }
    u32 at = __sync_fetch_and_add(&nf_refusals_count, 1);
    u32 *entry = bpf_map_lookup_elem(&nf_refusals, &at);
    u32 *current = bpf_map_lookup_elem(&nf_current, &zero);
    if (entry && current) {
        entry[0] = *current;
        entry[1] = table;
        entry[2] = digest;
    }
}
#else
#define nf_note_refusal(table, key, n) ((void)(key), (void)(n))
#endif

/* Counts an insert that the table does not take. */
NF_INLINE bool nf_refuse_key(u64 *refused, const void *key, u32 n)
{
    __sync_fetch_and_add(refused, 1);
    nf_note_refusal(refused - nf_refused, key, n);
    return false;
}
#define nf_refuse(refused) nf_refuse_key(refused, 0, 0)

/* Whether a key comes before another one, byte by byte; n is a constant. */
NF_INLINE bool nf_before(const void *key, const void *other, u32 n)
{
    const u8 *a = key, *b = other;
    for (u32 i = 0; i < n; i++)
        if (a[i] != b[i])
            return a[i] < b[i];
    return false;
}

/* What looks for the entry whose integer, at bytes into its value, is least; of equal ones for that
 * whose key comes first. The kernel calls it for each entry. */
#define NF_LEAST(name, key_type, number, at)                                                       \
    struct name {                                                                                  \
        u64 order;                                                                                 \
        u64 found;                                                                                 \
        key_type key;                                                                              \
    };                                                                                             \
    static long name##_each(void *map, const void *key, const void *value, void *arg)              \
    {                                                                                              \
        typedef number nf_number __attribute__((aligned(1), may_alias));                           \
        struct name *best = arg;                                                                   \
        (void)map;                                                                                 \
        u64 flip = (number) - 1 < 0 ? 1ull << 63 : 0;                                              \
        u64 order = (u64)(s64) * (const nf_number *)((const u8 *)value + at) ^ flip;               \
        if (best->found &&                                                                         \
            (order > best->order ||                                                                \
             (order == best->order && !nf_before(key, &best->key, sizeof(key_type)))))             \
            return 0;                                                                              \
        best->order = order;                                                                       \
        best->found = 1;                                                                           \
        __builtin_memcpy(&best->key, key, sizeof(key_type));                                       \
        return 0;                                                                                  \
    }

/* n is a constant. */
NF_INLINE bool nf_masked_equal(const void *key, const void *want, const void *mask, u32 n)
{
    const u8 *k = key, *w = want, *m = mask;
    u64 differ = 0;
    u32 i = 0;
#pragma unroll
    for (; i + 8 <= n; i += 8)
        differ |= (*(const nf_word64 *)(k + i) ^ *(const nf_word64 *)(w + i)) &
                  *(const nf_word64 *)(m + i);
    if (i + 4 <= n) {
        differ |= (*(const nf_word32 *)(k + i) ^ *(const nf_word32 *)(w + i)) &
                  *(const nf_word32 *)(m + i);
        i += 4;
    }
#pragma unroll
    for (; i < n; i++)
        differ |= (k[i] ^ w[i]) & m[i];
    return !differ;
}

/* Of the maps behind these the compiler knows the type of keys. */
#define nf_map_update(map, ...) nf_update(map, sizeof(*(map)->key), __VA_ARGS__)
#define nf_map_create(map, ...) nf_create(map, sizeof(*(map)->key), __VA_ARGS__)
#define nf_map_entry(map, ...) nf_entry(map, sizeof(*(map)->key), __VA_ARGS__)

NF_INLINE bool nf_update(void *map, u32 n, const void *key, const void *value, u64 *refused)
{
    if (bpf_map_update_elem(map, key, value, BPF_ANY) == 0)
        return true;
    return nf_refuse_key(refused, key, n);
}

/* Makes an entry of a key that has none; null if the table is full. */
NF_INLINE void *nf_create(void *map, u32 n, const void *key, const void *zero, u64 *refused)
{
    bpf_map_update_elem(map, key, zero, BPF_NOEXIST);
    void *entry = bpf_map_lookup_elem(map, key);
    if (!entry)
        nf_refuse_key(refused, key, n);
    return entry;
}

/* The entry of key, made from zero if it was absent; null if the table is full. */
NF_INLINE void *nf_entry(void *map, u32 n, const void *key, const void *zero, u64 *refused)
{
    void *entry = bpf_map_lookup_elem(map, key);
    return entry ? entry : nf_create(map, n, key, zero, refused);
}

/* ---- Byte strings of table entries: capacity is a constant, the array has slack behind it
 * ---------------- */

NF_INLINE bool nf_buf_append(u8 *buf, u32 *used, u32 capacity, const void *bytes, u32 size)
{
    u64 at = *used;
    if (at > capacity || at + size > capacity)
        return false;
    NF_PIN(at);
    if (at > capacity)
        return false;
    __builtin_memcpy(buf + at, bytes, size);
    *used = at + size;
    return true;
}

NF_INLINE bool nf_buf_append_frame(struct xdp_md *ctx, u32 off, u32 want, u8 *buf, u32 *used,
                                   u32 capacity)
{
    u64 at = *used;
    u32 total = nf_whole_length(ctx);
    u32 n = total > off ? total - off : 0;
    if (n > want)
        n = want;
    if (n == 0)
        return true;
    if (n > NF_RECORD_BYTES || at + n > capacity)
        return false;
    u64 last = n - 1;
    asm volatile("%0 &= %1" : "+r"(last) : "i"(NF_RECORD_BYTES - 1));
    NF_PIN(at);
    if (at > capacity)
        return false;
    if (bpf_xdp_load_bytes(ctx, off, buf + at, last + 1))
        return false;
    *used = at + n;
    return true;
}

NF_INLINE bool nf_buf_read(const u8 *buf, u32 used, u32 capacity, u32 off, void *to, u32 size)
{
    u64 at = off;
    if (at + size > used)
        return false;
    NF_PIN(at);
    if (at > capacity)
        return false;
    __builtin_memcpy(to, buf + at, size);
    return true;
}

#ifdef NF_HOST_RING
/* The record head stands right in front of the bytes, so the string goes out without a copy in
 * between. */
NF_INLINE void nf_buf_deliver(struct nf_record_head *head, u32 used, u32 capacity)
{
    u64 n = used;
    head->length = used;
    NF_PIN(n);
    if (n <= capacity)
        bpf_ringbuf_output(&nf_host, head, sizeof(*head) + n, 0);
}
#endif

/* The head of a packet that is made of a value's first bytes, for the process to send. */
NF_INLINE void nf_new_head(struct nf_record_head *head, u32 port, u32 length, u32 size)
{
    head->kind = NF_NET_COPY;
    head->length = length < size ? length : size;
    head->addr = port;
}

#ifdef NF_ZEROES
/* Zeroes for a new entry that is too large for the stack. */
struct nf_zeroes {
    u8 bytes[1 << 16];
};

struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(max_entries, 1);
    __uint(map_flags, BPF_F_RDONLY_PROG);
    __type(key, u32);
    __type(value, struct nf_zeroes);
} nf_zero_map SEC(".maps");

NF_INLINE const void *nf_zeroes(void)
{
    u32 zero = 0;
    return bpf_map_lookup_elem(&nf_zero_map, &zero);
}
#endif

/* ---- The kernel's forwarding information
 * ----------------------------------------------------------------- */

struct nf_rt_fib_query {
    u8 family;
    u8 protocol;
    u16 length;
    u32 port;
    u32 src[4];
    u32 dst[4];
};

struct nf_rt_fib_answer {
    u32 port;
    u8 src_mac[6];
    u8 dst_mac[6];
};

NF_INLINE bool nf_fib(struct xdp_md *ctx, const void *query, void *answer)
{
    const struct nf_rt_fib_query *q = query;
    struct nf_rt_fib_answer *a = answer;
    struct bpf_fib_lookup fib;
    __builtin_memset(&fib, 0, sizeof(fib));
    fib.family = q->family == 6 ? 10 : 2;
    fib.l4_protocol = q->protocol;
    fib.tot_len = q->length;
    fib.ifindex = nf_config.ifindex[q->port & 15];
    for (int i = 0; i < 4; i++) {
        fib.ipv6_src[i] = q->src[i];
        fib.ipv6_dst[i] = q->dst[i];
    }
    if (bpf_fib_lookup(ctx, &fib, sizeof(fib), 0) != BPF_FIB_LKUP_RET_SUCCESS)
        return false;
    bool found = false;
    for (u32 port = 0; port < 16; port++) {
        if (port < nf_config.ports && nf_config.ifindex[port] == fib.ifindex) {
            a->port = port;
            found = true;
        }
    }
    __builtin_memcpy(a->src_mac, fib.smac, 6);
    __builtin_memcpy(a->dst_mac, fib.dmac, 6);
    return found;
}

/* Replaces *at by x while x is better than what is there, atomically; gives up after 8 lost races.
 */
#define NF_ATOMIC_UPDATE(at, x, better)                                                            \
    do {                                                                                           \
        __typeof__(*(at)) nf_old = *(volatile __typeof__(*(at)) *)(at);                            \
        for (int nf_try = 0; nf_try < 8 && (x)better nf_old; nf_try++) {                           \
            __typeof__(*(at)) nf_seen = __sync_val_compare_and_swap((at), nf_old, (x));            \
            if (nf_seen == nf_old)                                                                 \
                break;                                                                             \
            nf_old = nf_seen;                                                                      \
        }                                                                                          \
    } while (0)

#endif
