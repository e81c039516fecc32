/* SPDX-License-Identifier: 0BSD
 *
 * measure.bpf.c - small programs of which `nicforge targets measure` takes the time: each does one
 * thing several times, on a frame of 64 bytes that it leaves as it was.
 */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_endian.h>

typedef __u8 u8;
typedef __u16 u16;
typedef __u32 u32;
typedef __u64 u64;

#define X4(what) what what what what
#define X8(what) X4(what) X4(what)
#define X16(what) X8(what) X8(what)
#define X32(what) X16(what) X16(what)
#define X128(what) X32(what) X32(what) X32(what) X32(what)

/* Values that the compiler knows nothing of. */
#define KEEP1(a) asm volatile("" : "+r"(a))
#define KEEP2(a, b) asm volatile("" : "+r"(a), "+r"(b))

#define MAP(name, kind, key, value, entries)                                                       \
    struct {                                                                                       \
        __uint(type, BPF_MAP_TYPE_##kind);                                                         \
        __uint(max_entries, entries);                                                              \
        __uint(key_size, key);                                                                     \
        __uint(value_size, value);                                                                 \
    } name SEC(".maps")

/* A program on three values of the frame. */
#define PROGRAM(name, ...)                                                                         \
    SEC("xdp")                                                                                     \
    int name(struct xdp_md *ctx)                                                                   \
    {                                                                                              \
        u8 *data = (u8 *)(long)ctx->data, *end = (u8 *)(long)ctx->data_end;                        \
        if (data + 64 > end)                                                                       \
            return XDP_DROP;                                                                       \
        u64 x = *(u32 *)(data + 26), y = *(u32 *)(data + 30), z = *(u16 *)(data + 36);             \
        __VA_ARGS__                                                                                \
        return x + y + z == 0x123456789 ? XDP_PASS : XDP_DROP;                                     \
    }

/* Zeroes. */
volatile u8 m_next[16];

/* ---- instructions ------------------------------------------------------------------------- */

PROGRAM(chain_32, X16(x += y; x ^= z; KEEP1(x);))
PROGRAM(chain_256, X128(x += y; x ^= z; KEEP1(x);))
PROGRAM(wide_96, X32(x += 3; y ^= 77; z <<= 1; KEEP2(x, y); KEEP1(z);))
PROGRAM(wide_384, X128(x += 3; y ^= 77; z <<= 1; KEEP2(x, y); KEEP1(z);))
PROGRAM(mul_32, X32(x *= y; KEEP1(x);))
PROGRAM(mul_128, X128(x *= y; KEEP1(x);))
PROGRAM(mul_wide_64, X32(x *= 12345; y *= 54321; KEEP2(x, y);))
PROGRAM(div_8, X8(x = x / (y | 1) + 1000000; KEEP1(x);))
PROGRAM(div_32, X32(x = x / (y | 1) + 1000000; KEEP1(x);))
PROGRAM(load_32, X32(x += *(volatile u8 *)(data + 20);))
PROGRAM(load_128, X32(x += *(volatile u8 *)(data + 20); y ^= *(volatile u16 *)(data + 22);
                      z += *(volatile u32 *)(data + 28); x ^= *(volatile u32 *)(data + 32);))
PROGRAM(chase_32, u64 at = 0; X32(at = m_next[at & 15]; KEEP1(at);) x += at;)
PROGRAM(chase_128, u64 at = 0; X128(at = m_next[at & 15]; KEEP1(at);) x += at;)
PROGRAM(store_32, u64 t[4]; X8(*(volatile u64 *)&t[0] = x; *(volatile u64 *)&t[1] = y;
                               *(volatile u64 *)&t[2] = z; *(volatile u64 *)&t[3] = x;))
PROGRAM(store_128, u64 t[4]; X32(*(volatile u64 *)&t[0] = x; *(volatile u64 *)&t[1] = y;
                                 *(volatile u64 *)&t[2] = z; *(volatile u64 *)&t[3] = x;))
PROGRAM(spill_64, u64 t[2] = {}; X16(*(volatile u64 *)&t[0] = x; y += *(volatile u64 *)&t[1];
                                     *(volatile u64 *)&t[1] = y; x ^= *(volatile u64 *)&t[0];))
PROGRAM(branch_32, X32(if (x == 77777777) return XDP_PASS; KEEP1(x);))
PROGRAM(branch_128, X128(if (x == 77777777) return XDP_PASS; KEEP1(x);))
PROGRAM(
    taken_32, for (u32 i = 0; i < 32; i++) {
        x += y;
        KEEP1(x);
    })
PROGRAM(
    taken_128, for (u32 i = 0; i < 128; i++) {
        x += y;
        KEEP1(x);
    })
PROGRAM(swap_32,
        X16(x += bpf_ntohs(*(volatile u16 *)(data + 16)); y += bpf_ntohl((u32)x); KEEP2(x, y);))
PROGRAM(mix_16, X16(x ^= y; x -= (y << 14) | (u32)(y >> 18); y ^= x; y -= (x << 11) | (x >> 21);
                    KEEP2(x, y);))
PROGRAM(header_words, X8(*(volatile u16 *)(data + 12) = 8; *(volatile u32 *)(data + 26) = (u32)x;))

PROGRAM(sum_of_words, {
    u8 *at = data + 14;
    for (u32 i = 0; i < 24; i++) {
        if (at + 2 > end)
            break;
        x += *(u16 *)at;
        at += 2;
    }
})

PROGRAM(type_length_value, {
    u8 *at = data + 14;
    for (u32 i = 0; i < 16; i++) {
        if (at + 2 > end)
            break;
        if (at[0] == 0xfe) {
            y++;
            at += 1;
            continue;
        }
        x += at[1];
        at += 2;
    }
})

PROGRAM(byte_hash, {
    for (u32 i = 0; i < 40; i++) {
        x ^= *(volatile u8 *)(data + i);
        x *= 0x01000193;
    }
})

PROGRAM(copy_48, u64 t[6]; X4({
            for (u32 i = 0; i < 6; i++)
                *(volatile u64 *)&t[i] = *(volatile u64 *)(data + 8 * i);
            x += *(volatile u64 *)&t[1];
            y ^= *(volatile u64 *)&t[4];
        }))

/* A number that no branch is predicted by: xorshift, kept for the next packet. */
u64 m_random = 88172645463325252;

#define RANDOM                                                                                     \
    random ^= random << 13;                                                                        \
    random ^= random >> 7;                                                                         \
    random ^= random << 17;

PROGRAM(mispredict_8, u64 random = m_random; X8({
                                                 RANDOM if (random & 64) x += y;
                                                 else y ^= 77;
                                                 KEEP2(x, y);
                                             }) m_random = random;)
PROGRAM(mispredict_4, u64 random = m_random; X4({
                                                 RANDOM if (random & 64) x += y;
                                                 else y ^= 77;
                                                 KEEP2(x, y);
                                             }) m_random = random;)

static __attribute__((noinline)) u64 called(u64 a, u64 b)
{
    KEEP1(a);
    return a ^ b;
}

PROGRAM(call_4, X4(x += called(x, y);))
PROGRAM(call_16, X16(x += called(x, y);))

/* ---- maps --------------------------------------------------------------------------------- */

MAP(m_array, ARRAY, 4, 16, 64);
MAP(m_percpu_array, PERCPU_ARRAY, 4, 16, 64);
MAP(m_hash_4, HASH, 4, 16, 1024);
MAP(m_hash_16, HASH, 16, 16, 1024);
MAP(m_hash_40, HASH, 40, 64, 1024);
MAP(m_lru_hash_4, LRU_HASH, 4, 16, 1024);
MAP(m_lru_hash_16, LRU_HASH, 16, 16, 1024);
MAP(m_lru_hash_40, LRU_HASH, 40, 64, 1024);
MAP(m_percpu_hash, PERCPU_HASH, 16, 16, 1024);

#define LOOKUP(map)                                                                                \
    {                                                                                              \
        volatile u64 *found = bpf_map_lookup_elem(&map, key);                                      \
        if (!found)                                                                                \
            return XDP_PASS;                                                                       \
        x += *found;                                                                               \
    }
#define MISS(map)                                                                                  \
    if (bpf_map_lookup_elem(&map, key))                                                            \
        return XDP_PASS;
#define KEY(bytes, first)                                                                          \
    u32 key[bytes / 4] = {};                                                                       \
    key[0] = first;
/* The entry is there from the second packet on. */
#define THERE(map, bytes)                                                                          \
    KEY(bytes, 5) u64 value[8] = {1, 2};                                                           \
    if (!bpf_map_lookup_elem(&map, key))                                                           \
        bpf_map_update_elem(&map, key, value, BPF_ANY);
#define UPDATE(map) bpf_map_update_elem(&map, key, value, BPF_ANY);
#define INSERT(map) UPDATE(map) bpf_map_delete_elem(&map, key);

#define HASHES(map, bytes)                                                                         \
    PROGRAM(map##_found_1, THERE(map, bytes) LOOKUP(map))                                          \
    PROGRAM(map##_found_8, THERE(map, bytes) X8(LOOKUP(map)))                                      \
    PROGRAM(map##_missed_8, KEY(bytes, 77) X8(MISS(map)))                                          \
    PROGRAM(map##_updated_4, THERE(map, bytes) X4(UPDATE(map)))                                    \
    PROGRAM(map##_inserted_4, KEY(bytes, 99) u64 value[8] = {1}; X4(INSERT(map)))

HASHES(m_hash_4, 4)
HASHES(m_hash_16, 16)
HASHES(m_hash_40, 40)
HASHES(m_lru_hash_4, 4)
HASHES(m_lru_hash_16, 16)
HASHES(m_lru_hash_40, 40)
HASHES(m_percpu_hash, 16)

#define ARRAYS(map)                                                                                \
    PROGRAM(map##_found_8, KEY(4, 5) X8(LOOKUP(map)))                                              \
    PROGRAM(map##_found_32, KEY(4, 5) X32(LOOKUP(map)))                                            \
    PROGRAM(map##_updated_4, KEY(4, 5) u64 value[2] = {1, 2}; X4(UPDATE(map)))

ARRAYS(m_array)
ARRAYS(m_percpu_array)

/* 256 KiB: more than L1 and less than L2. */
MAP(m_wide, ARRAY, 4, 64, 4096);

#define ANYWHERE                                                                                   \
    {                                                                                              \
        RANDOM key[0] = random & 4095;                                                             \
        LOOKUP(m_wide)                                                                             \
    }
PROGRAM(l2_8, KEY(4, 0) u64 random = m_random; X8(ANYWHERE) m_random = random;)
PROGRAM(l2_chain_8, KEY(4, 0) u64 random = m_random; X8({
                                                         RANDOM key[0] = random & 4095;
                                                         u64 *found =
                                                             bpf_map_lookup_elem(&m_wide, key);
                                                         if (!found)
                                                             return XDP_PASS;
                                                         u64 zero = *(volatile u64 *)found;
                                                         random += zero;
                                                     }) m_random = random;)

#define COUNTER                                                                                    \
    KEY(4, 3) u64 *count = bpf_map_lookup_elem(&m_array, key);                                     \
    if (!count)                                                                                    \
        return XDP_PASS;
PROGRAM(atomic_1, COUNTER __sync_fetch_and_add(count, z);)
PROGRAM(atomic_8, COUNTER X8(__sync_fetch_and_add(count, z);))
PROGRAM(counter_8, COUNTER X8(*(volatile u64 *)count += z;))

#define TRIE(map, bytes, bits)                                                                     \
    struct {                                                                                       \
        __uint(type, BPF_MAP_TYPE_LPM_TRIE);                                                       \
        __uint(max_entries, 1024);                                                                 \
        __uint(key_size, 4 + bytes);                                                               \
        __uint(value_size, 16);                                                                    \
        __uint(map_flags, BPF_F_NO_PREALLOC);                                                      \
    } map SEC(".maps");                                                                            \
    PROGRAM(map##_found_1, THERE(map, 4 + bytes) key[0] = bits; LOOKUP(map))                       \
    PROGRAM(map##_found_8, THERE(map, 4 + bytes) key[0] = bits; X8(LOOKUP(map)))

TRIE(m_trie_4, 4, 32)
TRIE(m_trie_16, 16, 128)

/* ---- helpers ------------------------------------------------------------------------------ */

struct {
    __uint(type, BPF_MAP_TYPE_RINGBUF);
    __uint(max_entries, 1 << 24);
} m_ring SEC(".maps");
MAP(m_devices, DEVMAP, 4, 4, 8);
MAP(m_programs, PROG_ARRAY, 4, 4, 2);

#define HELPER(name, ...) PROGRAM(name##_1, __VA_ARGS__) PROGRAM(name##_8, X8(__VA_ARGS__))

HELPER(ktime, x += bpf_ktime_get_ns();)
HELPER(ktime_boot, x += bpf_ktime_get_boot_ns();)
HELPER(ktime_coarse, x += bpf_ktime_get_coarse_ns();)
HELPER(ktime_tai, x += bpf_ktime_get_tai_ns();)
HELPER(prandom, x += bpf_get_prandom_u32();)
HELPER(cpu_id, x += bpf_get_smp_processor_id();)
HELPER(length, x += bpf_xdp_get_buff_len(ctx);)
HELPER(head, bpf_xdp_adjust_head(ctx, 8); bpf_xdp_adjust_head(ctx, -8);)
HELPER(meta, bpf_xdp_adjust_meta(ctx, -8); bpf_xdp_adjust_meta(ctx, 8);)
HELPER(tail, bpf_xdp_adjust_tail(ctx, -8); bpf_xdp_adjust_tail(ctx, 8);)
HELPER(redirect_map, x += bpf_redirect_map(&m_devices, 1, XDP_DROP);)
HELPER(redirect, x += bpf_redirect(1, 0);)
HELPER(tail_call, bpf_tail_call(ctx, &m_programs, 1);)

#define BYTES(bytes)                                                                               \
    PROGRAM(sum_##bytes##_8, u64 t[bytes / 8]; __builtin_memcpy(t, data, bytes);                   \
            X8(x += bpf_csum_diff(0, 0, (__be32 *)t, bytes, 0);))                                  \
    PROGRAM(read_##bytes##_8, u64 t[bytes / 8]; X8(bpf_xdp_load_bytes(ctx, 0, t, bytes);))         \
    PROGRAM(write_##bytes##_8, u64 t[bytes / 8]; bpf_xdp_load_bytes(ctx, 0, t, bytes);             \
            X8(bpf_xdp_store_bytes(ctx, 0, t, bytes);))
BYTES(16)
BYTES(64)

PROGRAM(reserve_8, X8({
            u64 *record = bpf_ringbuf_reserve(&m_ring, 64, 0);
            if (record) {
                record[0] = x;
                bpf_ringbuf_discard(record, BPF_RB_NO_WAKEUP);
            }
        }))
static long each(u64 trip, void *context)
{
    *(u64 *)context += trip;
    return 0;
}

PROGRAM(loop_4, bpf_loop(4, each, &x, 0);)
PROGRAM(loop_64, bpf_loop(64, each, &x, 0);)

char LICENSE[] SEC("license") = "Dual BSD/GPL";
