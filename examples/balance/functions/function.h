/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * function.h - what a function on packets is to a worker. Every side of a balance links the same functions.
 *
 * A packet is the payload of a datagram. Functions of a pipeline see the same packet one after the other, the later
 * ones as the earlier ones left it, and each adds its result to the reply.
 */
#ifndef FUNCTION_H
#define FUNCTION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/types.h>

/* Payload of a frame of 1514 bytes without worker's own header of 8 bytes, and the most a reply takes. */
#define PACKET_BYTES 1464
#define REPLY_BYTES 1464

struct arena;

struct function {
    const char *name;
    const char *what;
    /* Whether what it answers depends on packets before. Such functions keep all they know in the arena. */
    bool stateful;
    /* Prepares a function; `config` is its default if NULL. NULL with a message on stderr if that is not possible. */
    void *(*make)(const char *config, struct arena *arena);
    /* Serves a packet, which it may rewrite. Returns the result's length, at most `room`, or -1: no such request. */
    ssize_t (*serve)(void *state, uint8_t *packet, size_t size, uint8_t *result, size_t room);
    /* Writes the number-th packet of its load, at most PACKET_BYTES, and returns its length. */
    size_t (*packet)(const void *state, uint64_t number, uint8_t *packet);
};

extern const struct function kvs, count, ema, nat, bm25, knn, bayes, regex, crypto, deflate_zlib, deflate_isal;

/* A number from a number: splitmix64 (Steele, Lea, Flood, OOPSLA 2014). */
static inline uint64_t mix(uint64_t x)
{
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

/* A key of `keys`, skewed: half of all draws hit the lowest tenth of what is left, as popular keys do. */
static inline uint32_t skewed(uint64_t number, uint32_t keys)
{
    uint64_t word = mix(number);
    while (keys > 10 && (word & 1)) {
        keys /= 10;
        word >>= 1;
    }
    return (uint32_t)((word >> 8) % keys);
}

/* Members of packets and results are little endian and not aligned. */
static inline uint16_t load16(const uint8_t *at) { return (uint16_t)(at[0] | at[1] << 8); }
static inline uint32_t load32(const uint8_t *at)
{
    uint32_t value;
    memcpy(&value, at, sizeof value);
    return value;
}
static inline uint64_t load64(const uint8_t *at)
{
    uint64_t value;
    memcpy(&value, at, sizeof value);
    return value;
}
static inline void store16(uint8_t *at, uint16_t value) { memcpy(at, &value, sizeof value); }
static inline void store32(uint8_t *at, uint32_t value) { memcpy(at, &value, sizeof value); }
static inline void store64(uint8_t *at, uint64_t value) { memcpy(at, &value, sizeof value); }

#endif
