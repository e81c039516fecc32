/* SPDX-License-Identifier: 0BSD
 *
 * nf_log.h (host) - how processes write outputs down for verify: records of { u64 sequence; u64
 * number; u32 kind; u32 size; } and bytes, in memory of each worker's own that grows.
 */
#ifndef NF_LOG_H
#define NF_LOG_H

#include <stdlib.h>

#include "nf_abi.h"

/* Bytes that grow; what does not fit in memory is counted. */
struct nf_bytes {
    u8 *at;
    size_t size;
    size_t room;
    u64 lost;
};

static inline void nf_bytes_add(struct nf_bytes *bytes, const void *from, size_t size)
{
    if (bytes->size + size > bytes->room) {
        size_t room = 2 * (bytes->size + size) + 4096;
        u8 *at = realloc(bytes->at, room);
        if (!at) {
            bytes->lost++;
            return;
        }
        bytes->at = at;
        bytes->room = room;
    }
    memcpy(bytes->at + bytes->size, from, size);
    bytes->size += size;
}

/* Digits of a number, written from the end; gives the first. */
static inline char *nf_digits(char *end, u64 value)
{
    *--end = '\0';
    do
        *--end = (char)('0' + value % 10);
    while (value /= 10);
    return end;
}

struct nf_log_head {
    u64 sequence;
    u64 number;
    u32 kind;
    u32 size;
};

#endif
