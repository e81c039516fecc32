/* SPDX-License-Identifier: 0BSD
 *
 * nicforge.h - what a packet program written in C may use.
 *
 * A program is one handler per event, written as if it ran alone on one core:
 *
 *     #include <nicforge.h>
 *
 *     NF_TABLE(hash, hosts, nf_mac, uint32_t, 1024);
 *
 *     void net_recv(nf_pkt pkt)
 *     {
 *         struct nf_eth eth;
 *         if (!nf_extract(pkt, &eth)) {
 *             nf_drop(pkt, "too short");
 *             return;
 *         }
 *         nf_update(&hosts, eth.src, nf_port(pkt));
 *         nf_reset(pkt);
 *         nf_send(pkt, nf_port(pkt));
 *     }
 *
 * Every declaration below has no body: the compiler knows what it means. docs/language.md is the
 * reference.
 */
#ifndef NICFORGE_H
#define NICFORGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ---- Packets
 * --------------------------------------------------------------------------------------------- */

/* A packet. On every path through a handler each packet is given away exactly once: sent, passed,
 * delivered or dropped. It has one read cursor, at first on the first byte of the frame. */
typedef struct nf_packet *nf_pkt;

/* Reads sizeof(*header) bytes at the cursor into *header and moves the cursor behind them. If fewer
 * are left it returns false, *header is all zero and the cursor stays. */
bool nf_extract(nf_pkt pkt, void *header);

/* Puts *header before the unread rest, behind what was emitted earlier. */
void nf_emit(nf_pkt pkt, const void *header);

/* Moves the cursor len bytes on; false (and no move) if fewer are left. */
bool nf_strip(nf_pkt pkt, uint32_t len);

/* Cuts the unread rest to its first len bytes; false (and no change) if it is shorter. */
bool nf_trim(nf_pkt pkt, uint32_t len);

/* Lengthens the unread rest by len zero bytes; false (and no change) if the frame would have more
 * than 65535. */
bool nf_extend(nf_pkt pkt, uint32_t len);

/* Forgets what was emitted and moves the cursor back to the first byte: the frame as it came, but
 * for what nf_store changed, nf_trim cut off and nf_extend appended. */
void nf_reset(nf_pkt pkt);

/* Bytes of the unread rest. */
uint32_t nf_len(nf_pkt pkt);

/* Reads or overwrites sizeof(*value) bytes that start off bytes behind the cursor, which stays;
 * false (and *value zero, or nothing written) if they are not all there. */
bool nf_load(nf_pkt pkt, uint32_t off, void *value);
bool nf_store(nf_pkt pkt, uint32_t off, const void *value);

/* Number of the port the packet came in by, 0 for the first. */
uint32_t nf_port(nf_pkt pkt);

/* Of C's library these work on variables and parts of them, for a constant number of bytes. */
void *memcpy(void *to, const void *from, __SIZE_TYPE__ bytes);
void *memmove(void *to, const void *from, __SIZE_TYPE__ bytes);
void *memset(void *to, int byte, __SIZE_TYPE__ bytes);
int memcmp(const void *a, const void *b, __SIZE_TYPE__ bytes);

/* ---- Where packets go
 * ------------------------------------------------------------------------------------ */

/* Out to the network by a port. */
void nf_send(nf_pkt pkt, uint32_t port);
/* A copy of the packet as it is now: what was emitted, then the unread rest. It stands where a
 * packet is given away, in nf_send(nf_clone(pkt), port) or nf_to_host(nf_clone(pkt)); the packet
 * itself stays with the handler. */
nf_pkt nf_clone(nf_pkt pkt);
/* A packet of the bytes of a struct, or of its first len bytes: nf_send(nf_new(frame), port),
 * nf_send(nf_new(frame, len), port). */
#define nf_new(...) __nf_new(0, __VA_ARGS__)
nf_pkt __nf_new(int, ...);
/* To the operating system's network stack. */
void nf_pass(nf_pkt pkt);
/* To the program's own host side. */
void nf_to_host(nf_pkt pkt);
/* Gives the packet up. An optional second argument, a string literal, names the reason:
 * nf_drop(pkt, "no flow"). */
void nf_drop(nf_pkt pkt, ...);

/* A message (a struct) to the program's host side. */
#define nf_host_msg(message) __nf_host_msg(0, (message))
void __nf_host_msg(int, ...);
/* Writes the first len bytes of the unread rest to host memory at addr. The packet stays with the
 * handler. */
void nf_dma_write(nf_pkt pkt, uint64_t addr, uint32_t len);

/* Handlers. A program defines those it wants:
 *     void net_recv(nf_pkt pkt)            a packet came in from the network
 *     void host_send(struct YOURS message) the host side sent a message
 *     NF_TIMER(NF_MS(10)) void age(void)   10 ms have passed, again and again; any name
 */

/* Queues. What is enqueued for a handler of one's own is handled by it, later: by another core
 * where the planner says so, on the other side of the host link where NF_ON does. void count(nf_pkt
 * pkt, struct item item);     the handler's prototype nf_enqueue(count, pkt, item); its arguments;
 * a packet among them is given away */
#define nf_enqueue(queue, ...) (__nf_enqueue(), (queue)(__VA_ARGS__))
void __nf_enqueue(void);

/* Number of network ports the program uses (default 2). */
#define NF_PORTS(n) _Static_assert((n) > 0, "nf.ports")

/* ---- Tables
 * ---------------------------------------------------------------------------------------------- */

/* NF_TABLE(kind, name, key type, value type, capacity): state that outlives a packet. Kinds:
 *   hash     exact match; a full table refuses new keys
 *   lru      exact match; a full table evicts the least recently used entry
 *   array    uint32_t index below the capacity; all entries exist, zero at first
 *   lpm      longest prefix match; filled by the control plane, handlers change what they find
 *   ternary  value and mask with priorities; filled and changed as lpm
 * Keys and values are passed by value: an integer, a struct, or an array inside a struct. */
#define NF_TABLE(kind, name, key_type, value_type, entries)                                        \
    struct {                                                                                       \
        char (*nf_kind_##kind)[1];                                                                 \
        key_type *key;                                                                             \
        value_type *value;                                                                         \
        char (*capacity)[entries];                                                                 \
    } name

/* The same with a byte string of up to bytes bytes beside each value. */
#define NF_BUF_TABLE(kind, name, key_type, value_type, entries, bytes)                             \
    struct {                                                                                       \
        char (*nf_kind_##kind)[1];                                                                 \
        key_type *key;                                                                             \
        value_type *value;                                                                         \
        char (*capacity)[entries];                                                                 \
        char (*buf)[bytes];                                                                        \
    } name

/* bool nf_lookup(&table, key, &value): copies the entry to value; a miss returns false and zeroes
 * value. */
bool nf_lookup(const void *table, ...);
/* bool nf_lookup_bits(&table, key, bits, &value): in an lpm table, only prefixes of at most so many
 * bits count. */
bool nf_lookup_bits(const void *table, ...);
/* bool nf_contains(&table, key) */
bool nf_contains(const void *table, ...);
/* bool nf_update(&table, key, value): inserts or overwrites; false if a full table refused. */
bool nf_update(const void *table, ...);
/* bool nf_delete(&table, key): whether there was such an entry. */
bool nf_delete(const void *table, ...);

/* bool nf_least(&table, member, &key, &value): the entry of a hash table whose integer member is
 * least; of equal ones that whose key comes first, byte by byte. False, and zero, if the table is
 * empty. For integer values nf_least_value(&table, &key, &value). It looks at all entries:
 * for timers, not for every packet. */
#define nf_least(table, member, to_key, to_value)                                                  \
    __nf_least((table), &(table)->value->member, (to_key), (to_value))
#define nf_least_value(table, to_key, to_value)                                                    \
    __nf_least((table), (table)->value, (to_key), (to_value))
bool __nf_least(const void *table, const void *member, ...);

/* Commutative updates of one integer member of an entry; an absent entry starts from zero. They
 * return nothing and may run on many cores at once. nf_add(&table, key, member, amount); for
 * integer values nf_add_value(&table, key, amount). */
#define nf_add(table, key, member, amount)                                                         \
    __nf_commute_add((table), &(table)->value->member, (key), (amount))
#define nf_min(table, key, member, amount)                                                         \
    __nf_commute_min((table), &(table)->value->member, (key), (amount))
#define nf_max(table, key, member, amount)                                                         \
    __nf_commute_max((table), &(table)->value->member, (key), (amount))
#define nf_or(table, key, member, bits)                                                            \
    __nf_commute_or((table), &(table)->value->member, (key), (bits))
#define nf_add_value(table, key, amount) __nf_commute_add((table), (table)->value, (key), (amount))
#define nf_min_value(table, key, amount) __nf_commute_min((table), (table)->value, (key), (amount))
#define nf_max_value(table, key, amount) __nf_commute_max((table), (table)->value, (key), (amount))
#define nf_or_value(table, key, bits) __nf_commute_or((table), (table)->value, (key), (bits))
void __nf_commute_add(const void *table, const void *member, ...);
void __nf_commute_min(const void *table, const void *member, ...);
void __nf_commute_max(const void *table, const void *member, ...);
void __nf_commute_or(const void *table, const void *member, ...);

/* The byte string of an entry of an NF_BUF_TABLE. Appending fails (and changes nothing) if the
 * entry is absent or the bytes do not fit. */
/* bool nf_buf_append_pkt(&table, key, pkt, len): the first len bytes of the unread rest */
bool nf_buf_append_pkt(const void *table, ...);
/* bool nf_buf_append(&table, key, value) */
bool nf_buf_append(const void *table, ...);
/* uint32_t nf_buf_len(&table, key) */
uint32_t nf_buf_len(const void *table, ...);
/* bool nf_buf_read(&table, key, off, &value) */
bool nf_buf_read(const void *table, ...);
/* void nf_buf_clear(&table, key) */
void nf_buf_clear(const void *table, ...);
/* Sends the byte string as a packet and empties it; false if there is no such entry.
 * nf_buf_send(&table, key, port) */
bool nf_buf_send(const void *table, ...);
/* bool nf_buf_to_host(&table, key) */
bool nf_buf_to_host(const void *table, ...);

/* ---- Arithmetic helpers
 * ---------------------------------------------------------------------------------- */

/* Integers whose bytes are in network order. The compiler warns when they meet host-order integers.
 */
typedef uint16_t nf_be16;
typedef uint32_t nf_be32;
typedef uint64_t nf_be64;

static inline uint16_t nf_ntohs(nf_be16 x) { return __builtin_bswap16(x); }
static inline uint32_t nf_ntohl(nf_be32 x) { return __builtin_bswap32(x); }
static inline uint64_t nf_ntohll(nf_be64 x) { return __builtin_bswap64(x); }
static inline nf_be16 nf_htons(uint16_t x) { return __builtin_bswap16(x); }
static inline nf_be32 nf_htonl(uint32_t x) { return __builtin_bswap32(x); }
static inline nf_be64 nf_htonll(uint64_t x) { return __builtin_bswap64(x); }
/* The same for constants in case labels and tables. */
#define NF_HTONS(x) ((nf_be16)((((x) & 0xffu) << 8) | (((x) >> 8) & 0xffu)))
#define NF_HTONL(x)                                                                                \
    ((nf_be32)((((x) & 0xffu) << 24) | (((x) & 0xff00u) << 8) | (((x) >> 8) & 0xff00u) |           \
               (((x) >> 24) & 0xffu)))

/* uint32_t nf_hash(seed, value): a mixed CRC-32C of the value's bytes; different seeds are
 * independent. */
uint32_t nf_hash(uint32_t seed, ...);

/* Nanoseconds when the event came in. */
uint64_t nf_now(void);
/* 32 random bits. */
uint32_t nf_random(void);

/* Internet checksums (RFC 1071). A sum is a running ones-complement sum; nf_csum_fold turns it into
 * what a header carries. uint32_t nf_csum_add(sum, value)          adds the bytes of a header or
 * other value uint32_t nf_csum_payload(pkt, sum, len)   adds the first len bytes of the unread rest
 */
uint32_t nf_csum_add(uint32_t sum, ...);
uint32_t nf_csum_payload(nf_pkt pkt, uint32_t sum, uint32_t len);

static inline nf_be16 nf_csum_fold(uint32_t sum)
{
    sum = (sum & 0xffff) + (sum >> 16);
    sum = (sum & 0xffff) + (sum >> 16);
    return nf_htons((uint16_t)~sum);
}

/* A checksum after a 16-bit (32-bit) word it covers changed (RFC 1624, equation 3). */
static inline nf_be16 nf_csum_replace16(nf_be16 csum, nf_be16 from, nf_be16 to)
{
    uint32_t sum = (uint16_t)~csum + (uint32_t)(uint16_t)~from + to;
    sum = (sum & 0xffff) + (sum >> 16);
    sum = (sum & 0xffff) + (sum >> 16);
    return (nf_be16)~sum;
}

static inline nf_be16 nf_csum_replace32(nf_be16 csum, nf_be32 from, nf_be32 to)
{
    uint64_t sum = (uint16_t)~csum + (uint64_t)(uint32_t)~from + to;
    sum = (sum & 0xffff) + (sum >> 16);
    sum = (sum & 0xffff) + (sum >> 16);
    sum = (sum & 0xffff) + (sum >> 16);
    return (nf_be16)~sum;
}

/* ---- Annotations
 * ----------------------------------------------------------------------------------------- */

/* First statement of a loop whose bound the compiler cannot see: it runs at most n trips. */
#define NF_BOUND(n) __nf_bound(n)
void __nf_bound(uint32_t trips);

/* The condition, which holds with probability p (a constant from 0 to 1). */
#define NF_LIKELY(p, cond) (__builtin_expect_with_probability(!!(cond), 1, p) != 0)

/* Before a handler or a table: at most n replicas; before a handler: no order needed; the side it
 * must run on (nic or host). */
#define NF_MAX_REPLICAS(n) _Static_assert((n) > 0, "nf.max_replicas");
#define NF_UNORDERED _Static_assert(1, "nf.unordered");
#define NF_ON(side) _Static_assert(1, "nf.on." #side);

/* Before an array: where replicas have parts of it, those are ranges of its entries, and events go
 * where their entry is. With as many replicas as entries each has the one of its own number.
 * Without, a hash of the number decides. */
#define NF_BY_NUMBER _Static_assert(1, "nf.by_number");

/* Before an array of values of a multiple of 8 bytes: a program that attaches as the host side may
 * map its memory. */
#define NF_SHARED _Static_assert(1, "nf.shared");

/* Before the handler of a queue: how many entries may wait for it, and what becomes of one more:
 * whoever enqueues it waits (waits), or it is lost and counted (loses). Without, both are the
 * target's. */
#define NF_QUEUE(entries, full) _Static_assert((entries) > 0, "nf.queue." #full);

/* Before a function `void name(void)`: the handler of a timer. It runs every period nanoseconds (a
 * constant). */
#define NF_TIMER(period) _Static_assert((period) > 0, "nf.timer");
#define NF_NS(n) (n)
#define NF_US(n) ((n) * 1000ll)
#define NF_MS(n) ((n) * 1000000ll)
#define NF_SEC(n) ((n) * 1000000000ll)

/* Behind a function `static void gone(key type, value type)`: an entry of a hash table whose
 * member, a time of nf_now(), is time nanoseconds ago (a constant) is deleted, and the function
 * called with what it was. A member that every packet of the entry sets makes the time one of
 * idleness. Entries go at ticks, NF_EXPIRY_TICKS of them in that time; the oldest go first, at most
 * NF_EXPIRY_MOST at a tick. */
#define NF_EXPIRY_TICKS 64
#define NF_EXPIRY_MOST 16
#define NF_EXPIRES(table, member, time, gone)                                                      \
    NF_TIMER(((time) + NF_EXPIRY_TICKS - 1) / NF_EXPIRY_TICKS)                                     \
    void nf_expiry_of_##table(void)                                                                \
    {                                                                                              \
        for (int nf_n = 0; nf_n < NF_EXPIRY_MOST; nf_n++) {                                        \
            __typeof__(*(table).key) nf_key;                                                       \
            __typeof__(*(table).value) nf_value;                                                   \
            if (!nf_least(&table, member, &nf_key, &nf_value) || nf_now() < nf_value.member ||     \
                nf_now() - nf_value.member < (time))                                               \
                break;                                                                             \
            nf_delete(&table, nf_key);                                                             \
            gone(nf_key, nf_value);                                                                \
        }                                                                                          \
    }

/* A member of a struct's locals that must be written before it is read, on every way, also through
 * calls and queues. */
#define NF_WRITE_FIRST(type, member)                                                               \
    _Static_assert(sizeof(((type *)0)->member) > 0, "nf.write_first." #type "." #member);
/* What a function calls on every way: each of the others once (all), one of them (one), at most one
 * (zero_or_one), all once or none (together; last: the last listed comes last); many promises
 * nothing. */
#define NF_FIRES(class, function, ...)                                                             \
    _Static_assert(1, "nf.fires." #class "." #function "." #__VA_ARGS__);

/* Before an `extern` function of C: it has no state, so several threads may call it. It may write
 * by its pointers. */
#define NF_PURE __attribute__((annotate("nf.pure")))

/* ---- Help while developing
 * ------------------------------------------------------------------------------- */

/* Prints a line; each {} takes the next argument, an integer: nf_log("flow {} of {}", a, b). */
void nf_log(const char *format, ...);

/* Ciphers and digests over the first len bytes of the unread rest (all of it if it is shorter), in
 * place. Keys of AES are arrays or structs of 16, 24 or 32 bytes. What returns a bool is false, and
 * changes nothing, where it refuses. */

/* AES in counter mode (NIST SP 800-38A, 6.5), either way; *iv is the first counter block: 16 bytes.
 */
bool nf_aes_ctr(nf_pkt pkt, uint32_t len, const void *key, const void *iv);

/* AES with cipher block chaining (6.2); *iv has 16 bytes. False if the bytes are no whole blocks of
 * 16. */
bool nf_aes_cbc_encrypt(nf_pkt pkt, uint32_t len, const void *key, const void *iv);
bool nf_aes_cbc_decrypt(nf_pkt pkt, uint32_t len, const void *key, const void *iv);

/* AES in Galois/counter mode (NIST SP 800-38D): *nonce has 12 bytes, *tag 16; *beside, of any size,
 * is authenticated only. Opening is false if the tag does not fit. */
bool nf_aes_gcm_seal(nf_pkt pkt, uint32_t len, const void *key, const void *nonce,
                     const void *beside, void *tag);
bool nf_aes_gcm_open(nf_pkt pkt, uint32_t len, const void *key, const void *nonce,
                     const void *beside, const void *tag);

/* SHA-256 (FIPS 180-4) and HMAC of it (RFC 2104) into *digest, of 32 bytes; *key has any size. */
void nf_sha256(nf_pkt pkt, uint32_t len, void *digest);
void nf_hmac_sha256(nf_pkt pkt, uint32_t len, const void *key, void *digest);

/* CRC-32 of IEEE 802.3. */
uint32_t nf_crc32(nf_pkt pkt, uint32_t len);

/* Regular expressions, one a line, in the first len bytes of the unread rest (all of it if it is
 * shorter): the number, from 1, of the one whose match ends first; of those that end there, of the
 * first. 0 if none matches. */
uint32_t nf_regex(nf_pkt pkt, uint32_t len, const char *patterns);

/* The kernel's forwarding and neighbour lookup, on targets that have it (xdp). Addresses of IPv4
 * are in the first word. False if the kernel has no route or no neighbour for it. */
struct nf_fib_query {
    uint8_t family; /* 4 or 6 */
    uint8_t protocol;
    uint16_t length;
    uint32_t port; /* the port the packet came in by */
    nf_be32 src[4];
    nf_be32 dst[4];
};
struct nf_fib_answer {
    uint32_t port; /* the port to send by */
    uint8_t src_mac[6];
    uint8_t dst_mac[6];
};
bool nf_fib_lookup(const struct nf_fib_query *query, struct nf_fib_answer *answer);

#include <nicforge/headers.h>

/* What memcpy, memset and memcmp do with a number of bytes that varies. */
static inline void __nf_memcpy(void *to, const void *from, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        ((uint8_t *)to)[i] = ((const uint8_t *)from)[i];
}

static inline void __nf_memset(void *to, int byte, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        ((uint8_t *)to)[i] = (uint8_t)byte;
}

static inline int __nf_memcmp(const void *a, const void *b, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        uint8_t left = ((const uint8_t *)a)[i], right = ((const uint8_t *)b)[i];
        if (left != right)
            return left < right ? -1 : 1;
    }
    return 0;
}

#endif
