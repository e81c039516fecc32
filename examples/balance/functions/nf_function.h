/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * A function for the balancer's sides: one call per request. A line `libraries: NAME...` in the
 * source names what is linked.
 */
#ifndef NF_FUNCTION_H
#define NF_FUNCTION_H

#include <stdint.h>

/* Reads a request's payload, writes the result (at most `room` bytes, at least 4096) and returns
 * its length; 0 means that it failed. */
uint32_t nf_function_run(const uint8_t *in, uint32_t length, uint8_t *out, uint32_t room);
/* Whether known answers come out; called once before the first request. */
int nf_function_check(void);

/* A word of the payload, 0 beyond its end. */
static inline uint32_t nf_word(const uint8_t *in, uint32_t length, uint32_t at)
{
    uint32_t word = 0;

    for (uint32_t i = 0; i < 4 && 4 * at + i < length; i++)
        word |= (uint32_t)in[4 * at + i] << (8 * i);
    return word;
}

static inline void nf_put(uint8_t *out, uint32_t word)
{
    for (int i = 0; i < 4; i++)
        out[i] = (uint8_t)(word >> (8 * i));
}

#endif
