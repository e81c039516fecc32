/* SPDX-License-Identifier: 0BSD
 *
 * nf_masks.h (host) - the first of many masked entries that fits a key: part of nf_tables.c.
 *
 * For every byte of the key and every value of that byte, a row of bits says which entries of the
 * list fit it (Lakshman, Stiliadis, SIGCOMM'98, with bytes for their fields). The rows of the key's
 * bytes, one and another, leave the entries that fit the key; the first bit is the first of the
 * list. Sixty-four entries take as many reads as there are bytes that any mask looks at, and later
 * ones are only looked at if none of these fits. An entry that comes or goes moves the bits behind
 * it in all rows: 256 times the bytes of a key, a word for every 64 entries.
 */
#ifndef NF_MASKS_H
#define NF_MASKS_H

#include <stdlib.h>

#include "nf_tables.h"

/* Bytes that rows may take; longer lists are gone through. */
#define NF_MASKS_MOST (16u << 20)

static uint32_t masks_words(const struct nf_table *table) { return (table->capacity + 63) / 64; }

static uint64_t *masks_row(const struct nf_table *table, uint32_t byte, uint32_t value)
{
    return table->fitting + ((size_t)byte * 256 + value) * masks_words(table);
}

static bool masks_new(struct nf_table *table)
{
    size_t rows = (size_t)table->key_size * 256,
           size = rows * masks_words(table) * sizeof(uint64_t);
    if (!size || size > NF_MASKS_MOST)
        return true;
    table->fitting = calloc(1, size);
    table->cares = calloc(table->key_size, sizeof(*table->cares));
    return table->fitting && table->cares;
}

static void masks_free(struct nf_table *table)
{
    free(table->fitting);
    free(table->cares);
}

/* Moves the bits from `at` on one place up, or down over the one at `at`, in a row of a list of
 * `ordered` entries. */
static void masks_move(uint64_t *row, uint32_t at, uint32_t ordered, bool up)
{
    uint32_t first = at / 64, last = ordered / 64;
    uint64_t below = row[first] & ((1ull << at % 64) - 1);
    if (up) {
        for (uint32_t word = last; word > first; word--)
            row[word] = row[word] << 1 | row[word - 1] >> 63;
        row[first] = (row[first] & ~((1ull << at % 64) - 1)) << 1 | below;
    } else {
        uint64_t above = row[first] >> 1 & ~((1ull << at % 64) - 1);
        for (uint32_t word = first; word < last; word++) {
            row[word] = above | (word == first ? below : 0) | row[word + 1] << 63;
            above = row[word + 1] >> 1;
        }
        row[last] = above | (last == first ? below : 0);
    }
}

/* The entry at place `at` of a list that has `ordered` entries now came, or will go. */
static void masks_change(struct nf_table *table, uint32_t at, const unsigned char *want,
                         const unsigned char *mask, bool come)
{
    uint32_t last = table->ordered - 1;
    for (uint32_t byte = 0; table->fitting && byte < table->key_size; byte++) {
        table->cares[byte] += mask[byte] ? (come ? 1 : (uint32_t)-1) : 0;
        for (uint32_t value = 0; value < 256; value++) {
            uint64_t *row = masks_row(table, byte, value);
            masks_move(row, at, last, come);
            uint64_t fits = come && (value & mask[byte]) == want[byte];
            row[at / 64] |= fits << at % 64;
        }
    }
}

/* Place in the list of the first entry that fits, or none. */
static uint32_t masks_first(const struct nf_table *table, const unsigned char *key)
{
    uint32_t words = (table->ordered + 63) / 64;
    for (uint32_t word = 0; word < words; word++) {
        uint32_t left = table->ordered - 64 * word;
        uint64_t fits = left < 64 ? (1ull << left) - 1 : ~0ull;
        for (uint32_t byte = 0; byte < table->key_size && fits; byte++)
            if (table->cares[byte])
                fits &= masks_row(table, byte, key[byte])[word];
        if (fits)
            return 64 * word + (uint32_t)__builtin_ctzll(fits);
    }
    return NF_NONE;
}

#endif
