/* SPDX-License-Identifier: 0BSD
 *
 * nf_link_words.h - values for a queue without their zeros.
 *
 * Of each 64 words of 8 bytes a mask says which are not zero, and these follow it. So a byte string
 * of which only some bytes count, with zeros behind them, takes what counts, rounded up to 8 bytes,
 * wherever among other values it lies.
 */
#ifndef NF_LINK_WORDS_H
#define NF_LINK_WORDS_H

#include <stdint.h>
#include <string.h>

/* Most bytes that `length` bytes take. */
static inline uint32_t nf_words_most(uint32_t length)
{
    uint32_t words = (length + 7) / 8;
    return (words + (words + 63) / 64) * 8;
}

/* Writes `length` bytes; how many bytes that took. */
static inline uint32_t nf_words_put(uint8_t *to, const void *bytes, uint32_t length)
{
    const uint8_t *from = (const uint8_t *)bytes, *end = from + length;
    uint8_t *next = to;
    while (from < end) {
        uint8_t *masked = next;
        uint64_t mask = 0;
        next += 8;
        for (uint32_t bit = 0; bit < 64 && from < end; bit++, from += 8) {
            uint64_t word = 0;
            memcpy(&word, from, end - from < 8 ? (size_t)(end - from) : 8);
            memcpy(next, &word, 8);
            mask |= (uint64_t)(word != 0) << bit;
            next += word ? 8 : 0;
        }
        memcpy(masked, &mask, 8);
    }
    return (uint32_t)(next - to);
}

/* Reads `length` bytes back; how many of `from` they took, more than `room` if there are too few.
 */
static inline uint32_t nf_words_get(void *bytes, uint32_t length, const uint8_t *from,
                                    uint32_t room)
{
    uint8_t *to = (uint8_t *)bytes, *end = to + length;
    uint32_t at = 0;
    while (to < end) {
        uint64_t mask;
        if (room - at < 8)
            return room + 1;
        memcpy(&mask, from + at, 8);
        at += 8;
        for (uint32_t bit = 0; bit < 64 && to < end; bit++, to += 8) {
            uint64_t word = 0;
            if (mask >> bit & 1) {
                if (room - at < 8)
                    return room + 1;
                memcpy(&word, from + at, 8);
                at += 8;
            }
            memcpy(to, &word, end - to < 8 ? (size_t)(end - to) : 8);
        }
    }
    return at;
}

#endif
