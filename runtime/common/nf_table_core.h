/* SPDX-License-Identifier: 0BSD
 *
 * nf_table_core.h (common) - what tables mean, whatever memory their entries are in: which bits of
 * a key count, which of several matching entries is taken, what the control plane writes.
 *
 * A runtime's nf_tables.c includes it behind its `struct nf_table` and the functions declared here
 * first, which know the memory.
 */
#ifndef NF_TABLE_CORE_H
#define NF_TABLE_CORE_H

#define NF_MAX_KEY 256

/* ---- What a runtime has: entries by their numbers
 * ----------------------------------------------------------------------- */

static bool is_live(const struct nf_table *table, uint32_t number);
static uint32_t detail_of(const struct nf_table *table, uint32_t number);
static void *key_of(const struct nf_table *table, uint32_t number);
static void *value_of(const struct nf_table *table, uint32_t number);
/* Whether an entry's key, with its mask behind it, begins with these bytes. */
static bool has_key(const struct nf_table *table, uint32_t number, const void *key, uint32_t size);
static bool key_before(const struct nf_table *table, uint32_t number, uint32_t other);
/* TERNARY: whether an entry's key and mask match a key. */
static bool matches(const struct nf_table *table, uint32_t number, const void *key);
/* Takes a free entry's number; there is one as long as count is below the capacity. */
static uint32_t take(struct nf_table *table);
/* Writes a new entry with a zero value. */
static void fresh(struct nf_table *table, uint32_t number, const void *key, uint32_t size,
                  uint32_t detail);
/* A new entry under a key as the index sees it; null if the table is full. */
static void *insert_indexed(struct nf_table *table, const void *key, uint32_t hash,
                            uint32_t detail);
/* LPM: whether one more prefix fits into what is kept beside the index, and that it came. */
static bool prefix_fits(struct nf_table *table);
static void prefix_came(struct nf_table *table, const unsigned char *own, uint32_t bits,
                        uint32_t hash);
/* TERNARY: an entry has come to a place of the order. */
static void mask_came(struct nf_table *table, uint32_t at, const unsigned char *own);

/* ---- Sizes
 * --------------------------------------------------------------------------------------------- */

static uint32_t round8(uint32_t size) { return (size + 7) & ~7u; }

/* Bytes of a key as the index sees it: prefixes have their length behind them. */
static uint32_t indexed_size(const struct nf_table *table)
{
    return table->kind == NF_LPM ? table->key_size + 1 + (table->key_size > 31) : table->key_size;
}

/* Bytes an entry keeps for its key: ternary entries have their mask behind it. */
static uint32_t stored_size(const struct nf_table *table)
{
    return table->kind == NF_TERNARY ? 2 * table->key_size : indexed_size(table);
}

/* ---- The least entry
 * -------------------------------------------------------------------------------------------- */

/* An integer of a value as a number that is in the same order as others of its type. */
static uint64_t order_of(const unsigned char *bytes, uint32_t size, bool is_signed)
{
    uint64_t order = 0;
    switch (size) {
    case 1:
        order = *bytes;
        break;
    case 2:
        memcpy(&order, bytes, 2);
        break;
    case 4:
        memcpy(&order, bytes, 4);
        break;
    default:
        memcpy(&order, bytes, 8);
    }
    return is_signed ? order ^ 1ull << (8 * size - 1) : order;
}

void *nf_least(struct nf_table *table, uint32_t at, uint32_t size, bool is_signed, const void **key)
{
    uint32_t least = NF_NONE, left = table->count;
    uint64_t first = 0;
    for (uint32_t number = 0; left; number++) {
        if (!is_live(table, number))
            continue;
        left--;
        const unsigned char *value = value_of(table, number);
        uint64_t order = order_of(value + at, size, is_signed);
        bool after = order > first ||
                     (order == first && least != NF_NONE && !key_before(table, number, least));
        if (least != NF_NONE && after)
            continue;
        least = number;
        first = order;
    }
    if (least == NF_NONE)
        return NULL;
    *key = key_of(table, least);
    return value_of(table, least);
}

/* ---- Longest prefixes
 * ----------------------------------------------------------------------------------------- */

/* The key with everything behind its first bits zero, and the length behind it, in two bytes more
 * than a key has; gives the hash. */
static uint32_t prefix_key(const struct nf_table *table, const void *key, uint32_t bits,
                           unsigned char *to)
{
    const unsigned char *from = key;
    for (uint32_t i = 0; i < table->key_size; i++) {
        uint32_t left = bits > 8 * i ? bits - 8 * i : 0;
        to[i] = left >= 8 ? from[i] : left ? (unsigned char)(from[i] & ~(0xff >> left)) : 0;
    }
    to[table->key_size] = (unsigned char)bits;
    to[table->key_size + 1] = (unsigned char)(bits >> 8);
    return nf_key_hash(to, indexed_size(table));
}

/* Keeps the list of lengths in use, longest first. */
static void count_length(struct nf_table *table, uint32_t bits, uint32_t by)
{
    table->of_length[bits] += by;
    table->ordered = 0;
    for (uint32_t length = 8 * table->key_size + 1; length-- > 0;)
        if (table->of_length[length])
            table->order[table->ordered++] = length;
}

void *nf_prefix_find(struct nf_table *table, const void *key, uint32_t bits)
{
    unsigned char prefix[NF_MAX_KEY + 2];
    for (uint32_t i = 0; i < table->ordered; i++) {
        if (table->order[i] > bits)
            continue;
        uint32_t hash = prefix_key(table, key, table->order[i], prefix);
        void *value = nf_hash_find(table, prefix, indexed_size(table), hash);
        if (value)
            return value;
    }
    return NULL;
}

/* ---- Masks: entries in the order of falling priority, then age
 * ---------------------------------------------------------- */

/* A key under its mask, and the mask behind it. */
static void masked_key(const struct nf_table *table, const void *key, const void *mask,
                       unsigned char *to)
{
    const unsigned char *from = key, *under = mask;
    for (uint32_t i = 0; i < table->key_size; i++) {
        to[i] = from[i] & under[i];
        to[table->key_size + i] = under[i];
    }
}

/* Place in the order of the entry with exactly this key, mask and priority, or of none. */
static uint32_t ternary_row(const struct nf_table *table, const unsigned char *own,
                            uint32_t priority)
{
    for (uint32_t i = 0; i < table->ordered; i++)
        if (detail_of(table, table->order[i]) == priority &&
            has_key(table, table->order[i], own, 2 * table->key_size))
            return i;
    return NF_NONE;
}

static void *ternary_put(struct nf_table *table, const unsigned char *own, uint32_t priority)
{
    if (table->count >= table->capacity)
        return NULL;
    uint32_t number = take(table), at = table->ordered++;
    fresh(table, number, own, 2 * table->key_size, priority);
    for (; at > 0 && detail_of(table, table->order[at - 1]) < priority; at--)
        table->order[at] = table->order[at - 1];
    table->order[at] = number;
    mask_came(table, at, own);
    return value_of(table, number);
}

/* The first entry of the order that matches. */
static void *ternary_first(const struct nf_table *table, const void *key)
{
    for (uint32_t i = 0; i < table->ordered; i++)
        if (matches(table, table->order[i], key))
            return value_of(table, table->order[i]);
    return NULL;
}

/* Whether a key is the wanted one where a mask cares. */
static bool masked_equal(const unsigned char *key, const unsigned char *want,
                         const unsigned char *mask, uint32_t n)
{
    unsigned char differ = 0;
    for (uint32_t i = 0; i < n; i++)
        differ |= (unsigned char)((key[i] ^ want[i]) & mask[i]);
    return !differ;
}

/* ---- The control plane
 * ---------------------------------------------------------------------------------------- */

static uint32_t array_index(const void *key)
{
    uint32_t index;
    memcpy(&index, key, sizeof(index));
    return index;
}

void *nf_table_get(struct nf_table *table, const void *key, const void *mask, uint32_t detail)
{
    unsigned char own[2 * NF_MAX_KEY + 2];
    uint32_t size = indexed_size(table), hash, row;
    switch (table->kind) {
    case NF_ARRAY:
        return nf_array_find(table, array_index(key));
    case NF_HASH:
    case NF_LRU:
        return nf_hash_find(table, key, size, nf_key_hash(key, size));
    case NF_LPM:
        hash = prefix_key(table, key, detail, own);
        return nf_hash_find(table, own, size, hash);
    case NF_TERNARY:
        masked_key(table, key, mask, own);
        row = ternary_row(table, own, detail);
        return row == NF_NONE ? NULL : value_of(table, table->order[row]);
    }
    return NULL;
}

void *nf_table_put(struct nf_table *table, const void *key, const void *mask, uint32_t detail)
{
    unsigned char own[2 * NF_MAX_KEY + 2];
    void *value = nf_table_get(table, key, mask, detail);
    uint32_t hash;
    if (value && table->kind == NF_LRU)
        nf_lru_touch(table, value);
    if (value)
        return value;
    switch (table->kind) {
    case NF_HASH:
    case NF_LRU:
        return insert_indexed(table, key, nf_key_hash(key, table->key_size), 0);
    case NF_LPM:
        hash = prefix_key(table, key, detail, own);
        if (!prefix_fits(table))
            return NULL;
        value = insert_indexed(table, own, hash, detail);
        if (value) {
            count_length(table, detail, 1);
            prefix_came(table, own, detail, hash);
        }
        return value;
    case NF_TERNARY:
        masked_key(table, key, mask, own);
        return ternary_put(table, own, detail);
    case NF_ARRAY:
        break;
    }
    return NULL;
}

struct nf_entry *nf_table_next(struct nf_table *table, uint32_t *at)
{
    while (table->kind != NF_ARRAY && *at < table->capacity) {
        uint32_t number = (*at)++;
        if (is_live(table, number))
            return (struct nf_entry *)(void *)(table->entries + (size_t)number * table->stride);
    }
    return NULL;
}

const void *nf_table_key(struct nf_entry *entry) { return entry + 1; }
uint32_t nf_table_detail(const struct nf_entry *entry) { return entry->detail; }
void *nf_table_value(const struct nf_table *table, struct nf_entry *entry)
{
    return (unsigned char *)(void *)entry + table->value_at;
}
uint64_t nf_table_refused(const struct nf_table *table) { return table->refused; }
uint64_t nf_table_evicted(const struct nf_table *table) { return table->evicted; }

#endif
