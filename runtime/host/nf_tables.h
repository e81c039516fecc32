/* SPDX-License-Identifier: 0BSD
 *
 * nf_tables.h (host) - tables in memory, owned by one thread at a time.
 *
 * Entries lie in one array and never move, so a pointer to an entry stays right until the entry is
 * deleted or evicted. Exact matches are found through an index with linear probing, at most half
 * full: a slot has the key's whole hash beside the entry's number, so a key is compared once per
 * hit as a rule. Deletion shifts later slots back instead of leaving marks, so a table does not get
 * slower with age. An LRU entry keeps when it was used last, so a use is one store beside the key
 * that was just compared; a list of use would touch three more entries. Which entry is the oldest
 * is only asked when one must go: a heap holds for each a time at which it was used, maybe not the
 * last one, so never too late. The top is brought up to date until it is right; then no other can
 * be older. Each use makes one entry out of date at most, so that is O(log n) per use, paid by
 * evictions. A longest prefix is found through one such index for all lengths (the length is part
 * of the key), asked for the lengths in use from the longest, but for keys of four bytes, which
 * have arrays (nf_lpm.h); ternary entries are a list by falling priority, then age, and as long as
 * the list is short enough there are bits for it (nf_masks.h).
 *
 * No locks: whoever needs a table from several threads gives each its own, or stops them first.
 */
#ifndef NF_TABLES_H
#define NF_TABLES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "nf_abi.h"

#define NF_NONE UINT32_MAX
/* Functions whose sizes are constants where handlers call them: as calls, hashing and comparing
 * would be loops. */
#define NF_SIZED static inline __attribute__((always_inline, unused))

/* Cores of 32 bits have little memory: no arrays beside the index, and hashes of small products. */
#define NF_ROOMY (UINTPTR_MAX > 0xffffffffu)

/* In front of every entry. detail: bits of a prefix, priority of a ternary entry, place in the heap
 * (LRU), or the next free entry of one that is not live. */
struct nf_entry {
    /* LRU: the table's clock when it was used last. */
    uint64_t used;
    uint32_t detail;
    uint32_t live;
};

/* LRU: a time at which an entry was used. */
struct nf_use {
    uint64_t used;
    uint64_t entry;
};

/* One slot of the index; entry is its number plus one, 0 for none. */
struct nf_slot {
    uint32_t hash;
    uint32_t entry;
};

/* LPM: by the first 16 bits of an address, the entry of the longest prefix up to there plus one,
 * and the node for longer ones. */
struct nf_root {
    uint32_t entry;
    uint32_t node;
};

/* LPM: the entry of the prefix that leads to a node plus one, or the next free node; prefixes that
 * end in or below it.
 */
struct nf_node {
    uint32_t own;
    uint32_t users;
};

/* LPM: marks a place of a node that has a deeper one instead of an entry. */
#define NF_DEEPER 0x80000000u

struct nf_table {
    enum nf_table_kind kind;
    uint32_t capacity;
    uint32_t key_size;
    /* Bytes from one entry to the next, from an entry to its value, and of the whole value with its
     * byte string. */
    uint32_t stride;
    uint32_t value_at;
    uint32_t value_size;
    uint32_t count;
    /* Index slots less one. */
    uint32_t mask;
    struct nf_slot *index;
    unsigned char *entries;
    uint32_t free;
    /* Bytes of a new value that are zero: all but those of its byte string. */
    uint32_t zeroed;
    /* LRU: uses so far, and the heap of all live entries. */
    uint64_t clock;
    struct nf_use *uses;
    /* LPM: entries of each prefix length; the lengths in use, longest first. TERNARY: entries in
     * order. */
    uint32_t *of_length;
    uint32_t *order;
    uint32_t ordered;
    /* Insertions that were refused, entries that were evicted, for whoever reads them. */
    uint64_t refused;
    uint64_t evicted;
    /* TERNARY: see nf_masks.h; null if they would be too large. */
    uint64_t *fitting;
    uint32_t *cares;
    /* LPM of four bytes: see nf_lpm.h. */
    struct nf_root *roots;
    uint32_t (*nodes)[256];
    struct nf_node *node_state;
    uint32_t node_count;
    uint32_t node_room;
    uint32_t free_node;
#if NF_ROOMY
    /* HASH: places left in all parts of a table that replicas share out by key; null if the table
     * is whole. */
    uint32_t *room;
#endif
};

/* ---- For the control plane: sizes in bytes, 0 or null when memory or the table is full
 * ------------------------ */

/* A table whose values have value_size bytes, of which the last string_size are their byte
 * strings'. Null without memory. */
struct nf_table *nf_table_new(enum nf_table_kind kind, uint32_t capacity, uint32_t key_size,
                              uint32_t value_size, uint32_t string_size);
void nf_table_free(struct nf_table *table);

/* The value under exactly this key and match (detail: prefix bits or priority; mask: ternary), or
 * null. Not a use. */
void *nf_table_get(struct nf_table *table, const void *key, const void *mask, uint32_t detail);
/* The same, made with a zero value if it is new; null if the table is full. */
void *nf_table_put(struct nf_table *table, const void *key, const void *mask, uint32_t detail);
/* Whether there was such an entry; an array's becomes zero. */
bool nf_table_remove(struct nf_table *table, const void *key, const void *mask, uint32_t detail);
/* The first live entry from number *at on, which becomes the number to go on from; null at the end.
 */
struct nf_entry *nf_table_next(struct nf_table *table, uint32_t *at);
/* An entry's key (ternary: the mask lies behind it), prefix bits or priority, and value. */
const void *nf_table_key(struct nf_entry *entry);
uint32_t nf_table_detail(const struct nf_entry *entry);
void *nf_table_value(const struct nf_table *table, struct nf_entry *entry);
/* Insertions refused and entries evicted so far. */
uint64_t nf_table_refused(const struct nf_table *table);
uint64_t nf_table_evicted(const struct nf_table *table);

/* ---- For handlers: sizes are constants
 * ------------------------------------------------------------------------ */

/* Inserts a key that is not there, with a zero value; null if the table is full. LRU tables evict.
 */
void *nf_insert(struct nf_table *table, const void *key, uint32_t hash);
bool nf_remove(struct nf_table *table, const void *key, uint32_t hash);
/* HASH: the value of the entry whose integer of size bytes, at bytes into its value, is
 * least; of equal ones that whose key comes first, byte by byte. Null in an empty table. */
void *nf_least(struct nf_table *table, uint32_t at, uint32_t size, bool is_signed,
               const void **key);
/* LPM: the value of the longest prefix of a key that has at most so many bits, or null. */
void *nf_prefix_find(struct nf_table *table, const void *key, uint32_t bits);
void *nf_ternary_find(struct nf_table *table, const void *key);

NF_SIZED struct nf_entry *nf_entry_at(const struct nf_table *table, uint32_t number)
{
    return (struct nf_entry *)(void *)(table->entries + (size_t)number * table->stride);
}

NF_SIZED void *nf_key_of(struct nf_entry *entry) { return (void *)(entry + 1); }

NF_SIZED void *nf_value_of(const struct nf_table *table, struct nf_entry *entry)
{
    return (unsigned char *)(void *)entry + table->value_at;
}

NF_SIZED uint64_t nf_word(const unsigned char *bytes, uint32_t size)
{
    uint64_t word = 0;
    if (size >= 8)
        memcpy(&word, bytes, 8);
    else if (size >= 4) {
        uint32_t low, high;
        memcpy(&low, bytes, 4);
        memcpy(&high, bytes + size - 4, 4);
        word = (uint64_t)high << 32 | low;
    } else if (size) {
        word = (uint64_t)bytes[size - 1] << 16 | (uint64_t)bytes[size / 2] << 8 | bytes[0];
    }
    return word;
}

#if NF_ROOMY
NF_SIZED uint64_t nf_mix(uint64_t a, uint64_t b)
{
    __extension__ typedef unsigned __int128 nf_wide;
    nf_wide product = (nf_wide)a * b;
    return (uint64_t)product ^ (uint64_t)(product >> 64);
}

/* The hash with a key's last word. */
NF_SIZED uint32_t nf_hash_end(uint64_t hash, uint64_t word)
{
    hash = nf_mix(hash ^ word, 0x8ebc6af09c88c6e3u);
    return (uint32_t)(hash ^ hash >> 32);
}

/* Folded multiplication of 64-bit words: every bit of the key reaches every bit of the hash. */
NF_SIZED uint32_t nf_key_hash(const void *key, uint32_t size)
{
    const unsigned char *bytes = key;
    uint64_t hash = 0x9e3779b97f4a7c15u ^ size;
    uint32_t at = 0;
    for (; at + 8 < size; at += 8)
        hash = nf_mix(hash ^ nf_word(bytes + at, 8), 0xe7037ed1a0b428dbu);
    /* The last word may overlap the one before. */
    return nf_hash_end(hash, size >= 8 ? nf_word(bytes + size - 8, 8) : nf_word(bytes, size));
}

#else
/* On cores of 32 bits a product of 64-bit words takes a dozen instructions: a word at a time, with
 * one product each. */
NF_SIZED uint32_t nf_key_hash(const void *key, uint32_t size)
{
    const unsigned char *bytes = key;
    uint32_t hash = 0x9e3779b9u ^ size;
    for (uint32_t at = 0; at < size; at += 4) {
        uint32_t word = 0;
        memcpy(&word, bytes + at, size - at < 4 ? size - at : 4);
        hash = (hash ^ word) * 0x85ebca6bu;
        hash ^= hash >> 15;
    }
    hash *= 0xc2b2ae35u;
    return hash ^ hash >> 16;
}
#endif

/* Number of the entry with this key plus one, 0 if there is none. */
NF_SIZED uint32_t nf_locate(const struct nf_table *table, const void *key, uint32_t size,
                            uint32_t hash)
{
    for (uint32_t at = hash & table->mask;; at = (at + 1) & table->mask) {
        struct nf_slot slot = table->index[at];
        if (!slot.entry)
            return 0;
        if (slot.hash == hash &&
            memcmp(nf_key_of(nf_entry_at(table, slot.entry - 1)), key, size) == 0)
            return slot.entry;
    }
}

/* Makes an entry the most recently used one, by its value; null is no entry. */
NF_SIZED void nf_lru_touch(struct nf_table *table, void *value)
{
    if (value)
        ((struct nf_entry *)(void *)((unsigned char *)value - table->value_at))->used =
            ++table->clock;
}

NF_SIZED void *nf_hash_find(struct nf_table *table, const void *key, uint32_t size, uint32_t hash)
{
    uint32_t found = nf_locate(table, key, size, hash);
    return found ? nf_value_of(table, nf_entry_at(table, found - 1)) : NULL;
}

NF_SIZED void *nf_lru_find(struct nf_table *table, const void *key, uint32_t size, uint32_t hash)
{
    uint32_t found = nf_locate(table, key, size, hash);
    if (!found)
        return NULL;
    struct nf_entry *entry = nf_entry_at(table, found - 1);
    entry->used = ++table->clock;
    return nf_value_of(table, entry);
}

NF_SIZED void *nf_lpm_find(struct nf_table *table, const void *key, uint32_t size)
{
    /* The size is a constant, so that nothing is left of the rest where keys are shorter than an
     * address. */
    if (size != sizeof(uint32_t) || !table->roots)
        return nf_prefix_find(table, key, 8 * size);
    uint32_t address;
    memcpy(&address, key, sizeof(address));
    address = __builtin_bswap32(address);
    struct nf_root root = table->roots[address >> 16];
    uint32_t found = root.entry, place = table->nodes[root.node][address >> 8 & 255];
    if (place & NF_DEEPER) {
        uint32_t node = place & ~NF_DEEPER, own = table->node_state[node].own;
        found = own ? own : found;
        place = table->nodes[node][address & 255];
    }
    found = place ? place : found;
    return found ? nf_value_of(table, nf_entry_at(table, found - 1)) : NULL;
}

NF_SIZED void *nf_array_find(struct nf_table *table, uint32_t index)
{
    return index < table->capacity ? table->entries + (size_t)index * table->stride : NULL;
}

#endif
