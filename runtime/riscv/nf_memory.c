/* SPDX-License-Identifier: 0BSD
 *
 * nf_memory.c (riscv) - copies, comparisons and zeros by words, for cores that read and write words
 * at any address. The C library of bare cores goes by bytes, nine cycles each.
 */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* These loops would become calls of the functions they are in. */
#pragma GCC optimize("no-tree-loop-distribute-patterns")

typedef uint32_t word __attribute__((aligned(1), may_alias));
typedef uint16_t half __attribute__((aligned(1), may_alias));

void *memcpy(void *restrict to, const void *restrict from, size_t size)
{
    unsigned char *t = to;
    const unsigned char *f = from;
    for (; size >= 16; size -= 16, t += 16, f += 16) {
        const word *in = (const word *)f;
        word *out = (word *)t;
        uint32_t a = in[0], b = in[1], c = in[2], d = in[3];
        out[0] = a;
        out[1] = b;
        out[2] = c;
        out[3] = d;
    }
    for (; size >= 4; size -= 4, t += 4, f += 4)
        *(word *)t = *(const word *)f;
    if (size & 2) {
        *(half *)t = *(const half *)f;
        t += 2;
        f += 2;
    }
    if (size & 1)
        *t = *f;
    return to;
}

void *memmove(void *to, const void *from, size_t size)
{
    unsigned char *t = to;
    const unsigned char *f = from;
    if ((size_t)(t - f) >= size) {
        /* What is read lies behind all that was written. */
        for (; size >= 4; size -= 4, t += 4, f += 4)
            *(word *)t = *(const word *)f;
        while (size--)
            *t++ = *f++;
        return to;
    }
    for (; size >= 4; size -= 4)
        *(word *)(t + size - 4) = *(const word *)(f + size - 4);
    while (size--)
        t[size] = f[size];
    return to;
}

void *memset(void *to, int byte, size_t size)
{
    unsigned char *t = to;
    uint32_t four = (unsigned char)byte * 0x01010101u;
    for (; size >= 16; size -= 16, t += 16) {
        word *out = (word *)t;
        out[0] = four;
        out[1] = four;
        out[2] = four;
        out[3] = four;
    }
    for (; size >= 4; size -= 4, t += 4)
        *(word *)t = four;
    while (size--)
        *t++ = (unsigned char)byte;
    return to;
}

int memcmp(const void *one, const void *other, size_t size)
{
    const unsigned char *a = one, *b = other;
    for (; size >= 4 && *(const word *)a == *(const word *)b; size -= 4, a += 4, b += 4)
        ;
    for (; size; size--, a++, b++)
        if (*a != *b)
            return *a - *b;
    return 0;
}
