/* SPDX-License-Identifier: 0BSD
 *
 * nf_rt.h (host) - what generated C for processes is written against: the one C ABI of a compiled
 * handler,
 *
 *     void nf_handler_NAME(struct nf_env *env, const struct nf_event_NAME *event);
 *
 * whoever calls it: a simulator, a DPDK application, threads, a shim of some device. Portable C11
 * with the attributes and builtins that gcc and clang share; little-endian machines. Users include
 * nicforge.h, never this file.
 *
 * NF_COUNT: handlers append what they execute to env->trace. Without it nothing of that is left in
 * the code. NF_HOOKS: a header that defines the nf_send... functions below inline; without it they
 * call env->hooks.
 */
#ifndef NF_RT_HOST_H
#define NF_RT_HOST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "nf_tables.h"

/* Bytes that wait to be put in front of a packet, at most. */
#ifndef NF_STAGED_BYTES
#define NF_STAGED_BYTES 0
#endif
/* How handlers are declared. */
#ifndef NF_HANDLER
#define NF_HANDLER
#endif

/* A generated program names what it reads even where this target finds no use for it, and a
 * bit-field takes the low bits of what is set, constants included. Structs are packed so that their
 * bytes are the same everywhere; gcc and clang access their members as the machine needs it. */
#pragma GCC diagnostic ignored "-Wunused-variable"
#pragma GCC diagnostic ignored "-Wunused-but-set-variable"
#pragma GCC diagnostic ignored "-Waddress-of-packed-member"
#pragma GCC diagnostic ignored "-Wunused-const-variable"
// Programs may compare the complement of a small unsigned number, which GCC takes for a mistake.
#pragma GCC diagnostic ignored "-Wsign-compare"
#pragma GCC diagnostic ignored "-Wtautological-compare"
#pragma GCC diagnostic ignored "-Wtype-limits"
#ifdef __clang__
#pragma clang diagnostic ignored "-Wbitfield-constant-conversion"
#pragma clang diagnostic ignored "-Wtautological-constant-out-of-range-compare"
#else
#pragma GCC diagnostic ignored "-Wbool-compare"
// Lengths on ways that are never taken.
#pragma GCC diagnostic ignored "-Wstringop-overflow"
#pragma GCC diagnostic ignored "-Woverflow"
#pragma GCC diagnostic ignored "-Wpacked-not-aligned"
#endif

typedef uint8_t u8;
typedef uint16_t u16;
typedef uint32_t u32;
typedef uint64_t u64;
typedef int8_t s8;
typedef int16_t s16;
typedef int32_t s32;
typedef int64_t s64;

#define NF_INLINE static inline __attribute__((always_inline, unused))
#define NF_LOCAL __attribute__((aligned(8)))
/* How a struct is read where it lies in a packet or a table: packed structs may lie anywhere. That
 * it is no byte array there is why this code is compiled with -fno-strict-aliasing. */
#define NF_AT

/* ---- The ABI
 * --------------------------------------------------------------------------------------------- */

/* A packet: the frame lies in [data, end) of a buffer [head, tail). Between handlers cursor is how
 * far it was read and staged holds staged_len emitted bytes; a fresh packet has none of either. */
struct nf_packet {
    u8 *data;
    u8 *end;
    u8 *head;
    u8 *tail;
    u8 *staged;
    u32 cursor;
    u32 staged_len;
    u32 in_port;
    u32 spare;
    /* The caller's own: whatever holds the packet, and where the frame lay when that was true for
     * the last time. */
    void *owner;
    u8 *owner_data;
    u8 *owner_end;
#ifdef NF_CONTEXT_BYTES
    /* What stages leave for later ones. */
    u8 context[NF_CONTEXT_BYTES];
#endif
};

enum { NF_TRACE_BLOCK = 1, NF_TRACE_READ, NF_TRACE_WRITE, NF_TRACE_BYTES };

/* What a handler did, in order. BLOCK: straight line number id of the program ran (the artifact
 * lists its ops). READ and WRITE: table id, amount is a hash of the key, never 0; WRITE with amount
 * 0 is of the entry that the table was last asked for. BYTES: amount bytes of the frame or of a
 * byte string were summed or copied by an op whose size is known at run time only. */
struct nf_trace_item {
    u16 kind;
    u16 id;
    u32 amount;
};

struct nf_trace {
    struct nf_trace_item *items;
    u32 count;
    /* Items that fit; what does not is left out and counted in lost. */
    u32 room;
    u32 lost;
};

/* What a program's tables are, by number. */
struct nf_table_spec {
    const char *name;
    enum nf_table_kind kind;
    u32 capacity;
    u32 key_size;
    /* Bytes of the value proper, and of the whole entry with its byte string: u32 length at len_at,
     * bytes behind it. */
    u32 value_size;
    u32 entry_size;
    u32 len_at;
    u32 buf_capacity;
};

struct nf_env;

/* Where events to outside and between handlers go. A packet given to send, stack, host or drop, or
 * inside an event given to generate, is the receiver's; bytes are only lent. */
struct nf_hooks {
    void (*send)(struct nf_env *env, struct nf_packet *pkt, u32 port);
    void (*stack)(struct nf_env *env, struct nf_packet *pkt);
    void (*host)(struct nf_env *env, struct nf_packet *pkt);
    void (*drop)(struct nf_env *env, struct nf_packet *pkt, u32 reason);
    void (*send_bytes)(struct nf_env *env, u32 port, const void *bytes, u32 size);
    void (*host_bytes)(struct nf_env *env, const void *bytes, u32 size);
    void (*host_msg)(struct nf_env *env, const void *bytes, u32 size);
    void (*dma_write)(struct nf_env *env, u64 addr, const void *bytes, u32 size);
    void (*log)(struct nf_env *env, u32 log, const u64 *args, u32 count);
    void (*generate)(struct nf_env *env, u32 event, const void *params, u32 size,
                     struct nf_packet *pkt);
    /* Table id is about to be read or written under a key; with NF_KEYS only. */
    void (*touch)(struct nf_env *env, u32 id, const void *key, u32 size);
};

/* What one worker runs handlers with. now, seed and draws are the event's. */
struct nf_env {
    u64 now;
    u64 seed;
    /* Random numbers that the event has drawn so far. */
    u64 draws;
    u32 worker;
    u32 spare;
    /* By table number; workers may have tables of their own or share them. */
    struct nf_table **tables;
    const struct nf_hooks *hooks;
    struct nf_trace *trace;
    /* The caller's own. */
    void *user;
};

struct nf_clock {
    u64 now;
};

#ifdef NF_HOOKS
#include NF_HOOKS
#else
NF_INLINE void nf_send(struct nf_env *env, struct nf_packet *pkt, u32 port)
{
    env->hooks->send(env, pkt, port);
}
NF_INLINE void nf_stack(struct nf_env *env, struct nf_packet *pkt) { env->hooks->stack(env, pkt); }
NF_INLINE void nf_host(struct nf_env *env, struct nf_packet *pkt) { env->hooks->host(env, pkt); }
NF_INLINE void nf_drop(struct nf_env *env, struct nf_packet *pkt, u32 reason)
{
    env->hooks->drop(env, pkt, reason);
}
NF_INLINE void nf_send_bytes(struct nf_env *env, u32 port, const void *bytes, u32 size)
{
    env->hooks->send_bytes(env, port, bytes, size);
}
NF_INLINE void nf_host_bytes(struct nf_env *env, const void *bytes, u32 size)
{
    env->hooks->host_bytes(env, bytes, size);
}
NF_INLINE void nf_host_msg(struct nf_env *env, const void *bytes, u32 size)
{
    env->hooks->host_msg(env, bytes, size);
}
NF_INLINE void nf_dma_write(struct nf_env *env, u64 addr, const void *bytes, u32 size)
{
    env->hooks->dma_write(env, addr, bytes, size);
}
NF_INLINE void nf_log(struct nf_env *env, u32 log, const u64 *args, u32 count)
{
    env->hooks->log(env, log, args, count);
}
NF_INLINE void nf_generate(struct nf_env *env, u32 event, const void *params, u32 size,
                           struct nf_packet *pkt)
{
    env->hooks->generate(env, event, params, size, pkt);
}
#endif

/* ---- Costs
 * -------------------------------------------------------------------------------------------------
 */

#ifdef NF_COUNT
NF_INLINE void nf_trace(struct nf_env *env, u16 kind, u16 id, u32 amount)
{
    struct nf_trace *trace = env->trace;
    if (trace->count < trace->room)
        trace->items[trace->count++] = (struct nf_trace_item){kind, id, amount};
    else
        trace->lost++;
}
#define NF_BLOCK(id) nf_trace(env, NF_TRACE_BLOCK, (id), 1)
/* Lines are counted as often as they stand in the program: its loops run as they are written. */
#define NF_RUNS 0
#define NF_READS(id, key, size) nf_trace(env, NF_TRACE_READ, (id), nf_key_hash((key), (size)) | 1)
#define NF_WRITES(id, key, size) nf_trace(env, NF_TRACE_WRITE, (id), nf_key_hash((key), (size)) | 1)
#define NF_WRITES_LAST(id) nf_trace(env, NF_TRACE_WRITE, (id), 0)
#define NF_BYTES(bytes) nf_trace(env, NF_TRACE_BYTES, 0, (bytes))
#else
#define NF_BLOCK(id) ((void)0)
#define NF_RUNS 1
#ifdef NF_KEYS
#define NF_READS(id, key, size) env->hooks->touch(env, (id), (key), (size))
#define NF_WRITES(id, key, size) env->hooks->touch(env, (id), (key), (size))
#else
#define NF_READS(id, key, size) ((void)0)
#define NF_WRITES(id, key, size) ((void)0)
#endif
#define NF_WRITES_LAST(id) ((void)0)
#define NF_BYTES(bytes) ((void)0)
#endif

/* ---- Memory
 * ------------------------------------------------------------------------------------------------
 */

#define NF_GET(to, from) __builtin_memcpy(&(to), (from), sizeof(to))
#define NF_PUT(to, from) __builtin_memcpy((to), &(from), sizeof(from))
#define NF_MOVE(to, from, size) __builtin_memcpy((to), (from), (size))
#define NF_CLEAR(x) __builtin_memset(&(x), 0, sizeof(x))
/* The address of a key or value that is an expression. */
#define NF_ADDR(type, value) (&(type){value})

/* The other targets need help with these; a process does not. */
#define nf_index(i, len) (i)
#define nf_unlinked(x) (x)

NF_INLINE u32 nf_frame_length(const u8 *data, const u8 *end) { return (u32)(end - data); }

/* The longest frame there is, as everywhere in Nicforge. */
#define NF_MAX_FRAME 65535

#include "nf_math.h"

/* ---- Checksums and hashes
 * -------------------------------------------------------------------------------- */

/* Ones-complement sum of n bytes in network order, added to sum (RFC 1071): words are added as they
 * lie in memory and swapped once at the end. */
NF_INLINE u32 nf_csum_bytes(u32 sum, const void *bytes, u32 n)
{
#ifdef NF_SUM_BYTES
    /* Few bytes are summed sooner than an engine is asked. */
    if (!__builtin_constant_p(n) || n > NF_SUMMED_HERE)
        return nf_fold((u64)sum + __builtin_bswap16((u16)NF_SUM_BYTES(bytes, n)));
#endif
    const u8 *p = bytes;
    u64 total = 0;
    u32 i = 0;
    for (; i + 4 <= n; i += 4) {
        u32 word;
        __builtin_memcpy(&word, p + i, 4);
        total += word;
    }
    if (i + 2 <= n) {
        u16 word;
        __builtin_memcpy(&word, p + i, 2);
        total += word;
        i += 2;
    }
    if (i < n)
        total += p[i];
    return nf_fold((u64)sum + __builtin_bswap16((u16)nf_fold(total)));
}

/* The same over at most want bytes of the frame from off on. */
NF_INLINE u32 nf_csum_frame(const u8 *data, const u8 *end, u64 off, u32 sum, u32 want)
{
    u64 n = (u64)(end - data) - off;
    return nf_csum_bytes(sum, data + off, n < want ? (u32)n : want);
}

extern const u32 nf_crc32c[256];

/* CRC32C by the CPU: of 8, 4 and 1 bytes. */
#if defined(__SSE4_2__)
#define NF_CRC_8(crc, word) ((u32)__builtin_ia32_crc32di(crc, word))
#define NF_CRC_4(crc, word) __builtin_ia32_crc32si(crc, word)
#define NF_CRC_1(crc, byte) __builtin_ia32_crc32qi(crc, byte)
#elif defined(__ARM_FEATURE_CRC32)
#include <arm_acle.h>
#define NF_CRC_8(crc, word) __crc32cd(crc, word)
#define NF_CRC_4(crc, word) __crc32cw(crc, word)
#define NF_CRC_1(crc, byte) __crc32cb(crc, byte)
#endif

/* See ir::io::hash. */
NF_INLINE u32 nf_hash_bytes(u32 seed, const void *bytes, u32 n)
{
#ifdef NF_CRC_BYTES
    return nf_finish_hash(~NF_CRC_BYTES(seed, bytes, n) ^ seed);
#endif
    const u8 *p = bytes;
    u32 crc = ~0u;
#ifdef NF_CRC_8
    crc = NF_CRC_4(crc, seed);
    u32 i = 0;
    for (; i + 8 <= n; i += 8) {
        u64 word;
        __builtin_memcpy(&word, p + i, 8);
        crc = NF_CRC_8(crc, word);
    }
    if (i + 4 <= n) {
        u32 word;
        __builtin_memcpy(&word, p + i, 4);
        crc = NF_CRC_4(crc, word);
        i += 4;
    }
    for (; i < n; i++)
        crc = NF_CRC_1(crc, p[i]);
#else
    for (u32 i = 0; i < 4; i++)
        crc = crc >> 8 ^ nf_crc32c[(u8)(crc ^ seed >> 8 * i)];
    for (u32 i = 0; i < n; i++)
        crc = crc >> 8 ^ nf_crc32c[(u8)(crc ^ p[i])];
#endif
    return nf_finish_hash(~crc ^ seed);
}

NF_INLINE u32 nf_hash_int(u32 seed, const void *bytes, u32 n)
{
    return nf_hash_bytes(seed, bytes, n);
}

/* ---- Packets
 * -----------------------------------------------------------------------------------------------
 */

/* Makes room for n bytes in front of the frame; gives its new start, or null if the buffer or a
 * frame has not that much. The frame is moved only if the buffer has no room in front of it; a
 * target whose buffers are no larger than their frames moves it elsewhere (NF_MORE_ROOM). */
NF_INLINE u8 *nf_grow(struct nf_packet *pkt, u8 *data, u8 **end, u32 n)
{
    if ((u64)(*end - data) + n > NF_MAX_FRAME)
        return NULL;
    if ((u64)(data - pkt->head) >= n)
        return data - n;
#ifdef NF_MORE_ROOM
    return nf_more_room(pkt, data, end, n);
#endif
    u64 length = (u64)(*end - data);
    if ((u64)(pkt->tail - pkt->head) < length + n)
        return NULL;
    __builtin_memmove(pkt->head + n, data, length);
    *end = pkt->head + n + length;
    return pkt->head;
}

/* Appends n zero bytes to the frame; gives its start, which moves where there is no room behind
 * the frame, or NULL. */
NF_INLINE u8 *nf_extend(struct nf_packet *pkt, u8 *data, u8 **end, u32 n)
{
    if ((u64)(pkt->tail - *end) < n) {
        u8 *start = nf_grow(pkt, data, end, n);
        if (!start)
            return NULL;
        u64 length = (u64)(*end - start - n);
        __builtin_memmove(start, start + n, length);
        *end = start + length;
        data = start;
    }
    __builtin_memset(*end, 0, n);
    *end += n;
    return data;
}

/* Emitted headers wait in NF_STAGED_BYTES bytes where paths that emit differently meet. The
 * generator made that the most any path emits, unless that is more than a frame may have. */
NF_INLINE void nf_stage(u8 *staged, u32 *used, const void *bytes, u32 size)
{
    if (*used + size > NF_STAGED_BYTES)
        return;
    __builtin_memcpy(staged + *used, bytes, size);
    *used += size;
}

/* ---- Copies of packets
 * ------------------------------------------------------------------------------------- */

#ifdef NF_GATHER
/* A copy is put together in the port's room for a frame; null if that is too small. */
NF_INLINE u8 *nf_copy_begin(struct nf_packet *pkt, u8 *staged, u32 n, u8 **data, u8 **end, u64 off)
{
    (void)pkt;
    return nf_gather(staged, n, *data + off, (u32)(*end - *data - off));
}

NF_INLINE void nf_copy_end(u8 *copy, u8 *staged, u32 n)
{
    (void)copy;
    (void)staged;
    (void)n;
}
#else
NF_INLINE void nf_swap(u8 *restrict a, u8 *restrict b, u32 n)
{
    for (u32 i = 0; i < n; i++) {
        u8 byte = a[i];
        a[i] = b[i];
        b[i] = byte;
    }
}

/* Puts the n emitted bytes in front of the unread rest, off bytes behind data, and keeps what was
 * there; gives where the copy begins. The frame may have moved. Null, and nothing done, if a frame
 * has not that much room. */
NF_INLINE u8 *nf_copy_begin(struct nf_packet *pkt, u8 *staged, u32 n, u8 **data, u8 **end, u64 off)
{
    if (off < n) {
        u32 more = n - (u32)off;
        u8 *room = nf_grow(pkt, *data, end, more);
        if (!room)
            return NULL;
        *data = room + more;
    }
    u8 *copy = *data + off - n;
    nf_swap(copy, staged, n);
    return copy;
}

/* Takes them away again. */
NF_INLINE void nf_copy_end(u8 *copy, u8 *staged, u32 n) { nf_swap(copy, staged, n); }
#endif

/* Sends a copy of the packet as it would leave now; gives the frame's start. */
NF_INLINE u8 *nf_send_copy(struct nf_env *env, struct nf_packet *pkt, u32 port, u8 *staged, u32 n,
                           u8 *data, u8 **end, u64 off)
{
    u32 size = n + (u32)(*end - data - off);
    u8 *copy = nf_copy_begin(pkt, staged, n, &data, end, off);
    if (copy) {
        nf_send_bytes(env, port, copy, size);
        nf_copy_end(copy, staged, n);
    }
    return data;
}

/* Sends the first bytes of a value as a packet. */
NF_INLINE void nf_send_new(struct nf_env *env, u32 port, const void *bytes, u32 length, u32 size)
{
    nf_send_bytes(env, port, bytes, length < size ? length : size);
}

/* A copy to the program's host side. */
NF_INLINE u8 *nf_host_copy(struct nf_env *env, struct nf_packet *pkt, u8 *staged, u32 n, u8 *data,
                           u8 **end, u64 off)
{
    u32 size = n + (u32)(*end - data - off);
    u8 *copy = nf_copy_begin(pkt, staged, n, &data, end, off);
    if (copy) {
        nf_host_bytes(env, copy, size);
        nf_copy_end(copy, staged, n);
    }
    return data;
}

/* ---- Runs: what loops over bytes do together. Constants that the kernel's verifier asks for tell
 * nothing here ---- */

NF_INLINE void nf_stage_run(u8 *staged, u32 *used, const u8 *from, u64 n, u32 most, u32 skew)
{
    (void)most, (void)skew;
    /* As one by one: what does not fit is left out. */
    u64 room = *used < NF_STAGED_BYTES ? NF_STAGED_BYTES - *used : 0;
    n = n < room ? n : room;
    __builtin_memcpy(staged + *used, from, n);
    *used += n;
}

NF_INLINE bool nf_in_frame(const u8 *data, const u8 *end, u64 off, u64 n)
{
    return NF_RUNS && off + n <= nf_frame_length(data, end);
}

NF_INLINE bool nf_load_run(const u8 *data, const u8 *end, u64 off, u8 *to, u64 n, u32 most)
{
    (void)most;
    if (!nf_in_frame(data, end, off, n))
        return false;
    __builtin_memcpy(to, data + off, n);
    return true;
}

NF_INLINE bool nf_store_run(u8 *data, const u8 *end, u64 off, const u8 *from, u64 n, u32 most)
{
    (void)most;
    if (!nf_in_frame(data, end, off, n))
        return false;
    __builtin_memcpy(data + off, from, n);
    return true;
}

NF_INLINE bool nf_stage_frame(const u8 *data, const u8 *end, u64 off, u8 *staged, u32 *used, u64 n,
                              u32 most)
{
    if (!nf_in_frame(data, end, off, n))
        return false;
    nf_stage_run(staged, used, data + off, n, most, 0);
    return true;
}

/* May overlap, as far as the loop would not repeat what it wrote. */
NF_INLINE void nf_copy_run(u8 *to, const u8 *from, u64 n, u32 most, u32 skew, u32 width)
{
    (void)most, (void)skew, (void)width;
    __builtin_memmove(to, from, n);
}

NF_INLINE void nf_fill_run(u8 *to, u8 byte, u64 n, u32 most, u32 skew)
{
    (void)most, (void)skew;
    __builtin_memset(to, byte, n);
}

NF_INLINE u64 nf_run_word(const u8 *from)
{
    u64 word;
    __builtin_memcpy(&word, from, sizeof(word));
    return word;
}

/* All bits in which any two bytes differ. */
NF_INLINE u8 nf_differ_run(const u8 *a, const u8 *b, u64 n, u32 most, u32 skew, u32 width)
{
    (void)most, (void)skew, (void)width;
    u64 at = 0, differ = 0;
    for (; at + 8 <= n; at += 8)
        differ |= nf_run_word(a + at) ^ nf_run_word(b + at);
    for (; at < n; at++)
        differ |= a[at] ^ b[at];
    differ |= differ >> 32;
    differ |= differ >> 16;
    return (u8)(differ | differ >> 8);
}

/* A number of bytes that are equal, from the first one on: to the word with a difference, or all.
 */
NF_INLINE u64 nf_same_run(const u8 *a, const u8 *b, u64 n, u32 most, u32 skew, u32 width)
{
    (void)most, (void)skew, (void)width;
    u64 at = 0;
    while (NF_RUNS && at + 8 <= n && nf_run_word(a + at) == nf_run_word(b + at))
        at += 8;
    while (NF_RUNS && at + 8 > n && at < n && a[at] == b[at])
        at++;
    return at;
}

NF_INLINE void nf_dma_frame(struct nf_env *env, const u8 *data, const u8 *end, u64 off, u64 addr,
                            u32 want)
{
    u64 n = (u64)(end - data) - off;
    nf_dma_write(env, addr, data + off, n < want ? (u32)n : want);
}

/* ---- Tables: sizes are constants
 * ------------------------------------------------------------------------------ */

NF_INLINE bool nf_refuse(struct nf_table *table)
{
    table->refused++;
    return false;
}

NF_INLINE void *nf_hash_entry(struct nf_table *table, const void *key, u32 size, u32 hash)
{
    void *entry = nf_hash_find(table, key, size, hash);
    return entry ? entry : nf_insert(table, key, hash);
}

NF_INLINE void *nf_lru_entry(struct nf_table *table, const void *key, u32 size, u32 hash)
{
    void *entry = nf_lru_find(table, key, size, hash);
    return entry ? entry : nf_insert(table, key, hash);
}

NF_INLINE bool nf_buf_append(u8 *buf, u32 *used, u32 capacity, const void *bytes, u32 size)
{
    if ((u64)*used + size > capacity)
        return false;
    __builtin_memcpy(buf + *used, bytes, size);
    *used += size;
    return true;
}

NF_INLINE bool nf_buf_append_frame(const u8 *data, const u8 *end, u64 off, u32 want, u8 *buf,
                                   u32 *used, u32 capacity)
{
    u64 n = (u64)(end - data) - off;
    return nf_buf_append(buf, used, capacity, data + off, n < want ? (u32)n : want);
}

NF_INLINE bool nf_buf_read(const u8 *buf, u32 used, u32 capacity, u32 off, void *to, u32 size)
{
    (void)capacity;
    if ((u64)off + size > used)
        return false;
    __builtin_memcpy(to, buf + off, size);
    return true;
}

#endif
