/* SPDX-License-Identifier: 0BSD
 *
 * nf_tables.c (host) - what of the tables is not on the fast path: making them, inserting,
 * deleting, prefixes and masks, and the control plane's way in. See nf_tables.h.
 */
#include "nf_tables.h"

#include <stdlib.h>

#include "nf_lpm.h"
#include "nf_masks.h"

#include "nf_table_core.h"

static bool is_live(const struct nf_table *table, uint32_t number)
{
    return nf_entry_at(table, number)->live;
}
static uint32_t detail_of(const struct nf_table *table, uint32_t number)
{
    return nf_entry_at(table, number)->detail;
}
static void *key_of(const struct nf_table *table, uint32_t number)
{
    return nf_key_of(nf_entry_at(table, number));
}
static void *value_of(const struct nf_table *table, uint32_t number)
{
    return nf_value_of(table, nf_entry_at(table, number));
}
static bool has_key(const struct nf_table *table, uint32_t number, const void *key, uint32_t size)
{
    return !memcmp(key_of(table, number), key, size);
}
static bool key_before(const struct nf_table *table, uint32_t number, uint32_t other)
{
    return memcmp(key_of(table, number), key_of(table, other), table->key_size) < 0;
}
static bool matches(const struct nf_table *table, uint32_t number, const void *key)
{
    const unsigned char *want = key_of(table, number);
    return masked_equal(key, want, want + table->key_size, table->key_size);
}

struct nf_table *nf_table_new(enum nf_table_kind kind, uint32_t capacity, uint32_t key_size,
                              uint32_t value_size, uint32_t string_size)
{
    struct nf_table *table = calloc(1, sizeof(*table));
    if (!table)
        return NULL;
    table->kind = kind;
    table->capacity = capacity;
    table->key_size = key_size;
    table->value_size = value_size;
    table->zeroed = value_size - string_size;
    table->free = NF_NONE;
    if (kind == NF_ARRAY) {
        table->value_at = 0;
        table->stride = round8(value_size);
    } else {
        table->value_at = (uint32_t)sizeof(struct nf_entry) + round8(stored_size(table));
        table->stride = table->value_at + round8(value_size);
    }

    table->entries = calloc(capacity ? capacity : 1, table->stride ? table->stride : 8);
    bool indexed = kind == NF_HASH || kind == NF_LRU || kind == NF_LPM;
    if (indexed) {
        uint64_t slots = 8;
        while (slots < 2 * (uint64_t)capacity)
            slots *= 2;
        table->mask = (uint32_t)(slots - 1);
        table->index = calloc(slots, sizeof(*table->index));
    }
    if (kind == NF_LPM) {
        table->of_length = calloc(8 * (size_t)key_size + 1, sizeof(*table->of_length));
        table->order = calloc(8 * (size_t)key_size + 1, sizeof(*table->order));
    }
    if (kind == NF_LRU)
        table->uses = calloc(capacity ? capacity : 1, sizeof(*table->uses));
    if (kind == NF_TERNARY)
        table->order = calloc(capacity ? capacity : 1, sizeof(*table->order));
    bool arrays = NF_ROOMY && kind == NF_LPM && key_size == 4;
    bool lacking = (arrays && !lpm_new(table)) ||
                   (NF_ROOMY && kind == NF_TERNARY && !masks_new(table)) || !table->entries ||
                   (indexed && !table->index) || (kind == NF_LPM && !table->of_length) ||
                   (kind == NF_LRU && !table->uses) ||
                   ((kind == NF_LPM || kind == NF_TERNARY) && !table->order);
    if (lacking || key_size > NF_MAX_KEY) {
        nf_table_free(table);
        return NULL;
    }
    return table;
}

void nf_table_free(struct nf_table *table)
{
    if (!table)
        return;
    free(table->entries);
    free(table->index);
    free(table->uses);
    free(table->of_length);
    free(table->order);
    lpm_free(table);
    masks_free(table);
    free(table);
}

/* ---- The heap of uses
 * ----------------------------------------------------------------------------------------- */

static void place_use(struct nf_table *table, uint32_t at, struct nf_use use)
{
    table->uses[at] = use;
    nf_entry_at(table, (uint32_t)use.entry)->detail = at;
}

/* Puts a use where it belongs at or below a place of the first n. */
static void sift_down(struct nf_table *table, uint32_t at, uint32_t n, struct nf_use use)
{
    for (uint64_t child; (child = 2 * (uint64_t)at + 1) < n; at = (uint32_t)child) {
        if (child + 1 < n && table->uses[child + 1].used < table->uses[child].used)
            child++;
        if (table->uses[child].used >= use.used)
            break;
        place_use(table, at, table->uses[child]);
    }
    place_use(table, at, use);
}

/* A new entry, number count - 1 of the heap: nothing was used later, so it may stay there. */
static void add_use(struct nf_table *table, uint32_t number)
{
    uint64_t now = ++table->clock;
    nf_entry_at(table, number)->used = now;
    place_use(table, table->count - 1, (struct nf_use){now, number});
}

/* Takes an entry out of the heap of count. */
static void remove_use(struct nf_table *table, uint32_t number)
{
    uint32_t at = nf_entry_at(table, number)->detail, last = table->count - 1;
    struct nf_use use = table->uses[last];
    if (at == last)
        return;
    for (; at > 0 && table->uses[(at - 1) / 2].used > use.used; at = (at - 1) / 2)
        place_use(table, at, table->uses[(at - 1) / 2]);
    sift_down(table, at, last, use);
}

/* The entry whose last use is the longest ago; there is one. */
static uint32_t oldest_use(struct nf_table *table)
{
    while (true) {
        struct nf_use top = table->uses[0];
        uint64_t used = nf_entry_at(table, (uint32_t)top.entry)->used;
        if (used == top.used)
            return (uint32_t)top.entry;
        sift_down(table, 0, table->count, (struct nf_use){used, top.entry});
    }
}

/* ---- Entries and index
 * ---------------------------------------------------------------------------------------- */

/* Entries that were never used come in order behind those that were. */
static uint32_t take(struct nf_table *table)
{
    uint32_t number = table->free;
    if (number == NF_NONE)
        number = table->count;
    else
        table->free = nf_entry_at(table, number)->detail;
    table->count++;
    nf_entry_at(table, number)->detail = 0;
    nf_entry_at(table, number)->live = 1;
    return number;
}

/* Whether one more entry fits. Parts of one table take their places from what all of them have
 * left. */
static bool claim(struct nf_table *table)
{
    if (table->count >= table->capacity)
        return false;
#if NF_ROOMY
    if (!table->room)
        return true;
    uint32_t left = __atomic_load_n(table->room, __ATOMIC_RELAXED);
    while (left && !__atomic_compare_exchange_n(table->room, &left, left - 1, true,
                                                __ATOMIC_RELAXED, __ATOMIC_RELAXED))
        ;
    return left;
#else
    return true;
#endif
}

static void give_back(struct nf_table *table, uint32_t number)
{
#if NF_ROOMY
    if (table->room)
        __atomic_fetch_add(table->room, 1, __ATOMIC_RELAXED);
#endif
    struct nf_entry *entry = nf_entry_at(table, number);
    entry->live = 0;
    entry->detail = table->free;
    table->free = number;
    table->count--;
}

static void index_add(struct nf_table *table, uint32_t hash, uint32_t number)
{
    uint32_t at = hash & table->mask;
    while (table->index[at].entry)
        at = (at + 1) & table->mask;
    table->index[at] = (struct nf_slot){hash, number + 1};
}

static void index_remove(struct nf_table *table, uint32_t hash, uint32_t number)
{
    uint32_t hole = hash & table->mask;
    while (table->index[hole].entry != number + 1)
        hole = (hole + 1) & table->mask;
    for (uint32_t at = (hole + 1) & table->mask; table->index[at].entry;
         at = (at + 1) & table->mask) {
        uint32_t home = table->index[at].hash & table->mask;
        /* It may move back to the hole unless its home lies behind the hole. */
        if (((at - home) & table->mask) >= ((at - hole) & table->mask)) {
            table->index[hole] = table->index[at];
            hole = at;
        }
    }
    table->index[hole].entry = 0;
}

static void drop_entry(struct nf_table *table, uint32_t number, uint32_t hash)
{
    index_remove(table, hash, number);
    if (table->kind == NF_LRU)
        remove_use(table, number);
    give_back(table, number);
}

static void fresh(struct nf_table *table, uint32_t number, const void *key, uint32_t size,
                  uint32_t detail)
{
    nf_entry_at(table, number)->detail = detail;
    memcpy(key_of(table, number), key, size);
    memset(value_of(table, number), 0, table->zeroed);
}

static void *insert_indexed(struct nf_table *table, const void *key, uint32_t hash, uint32_t detail)
{
    uint32_t size = indexed_size(table);
    if (!claim(table)) {
        if (table->kind != NF_LRU || !table->count)
            return NULL;
        uint32_t oldest = oldest_use(table);
        drop_entry(table, oldest, nf_key_hash(key_of(table, oldest), size));
        table->evicted++;
    }
    uint32_t number = take(table);
    fresh(table, number, key, size, detail);
    index_add(table, hash, number);
    if (table->kind == NF_LRU)
        add_use(table, number);
    return value_of(table, number);
}

void *nf_insert(struct nf_table *table, const void *key, uint32_t hash)
{
    void *value = insert_indexed(table, key, hash, 0);
    table->refused += !value;
    return value;
}

bool nf_remove(struct nf_table *table, const void *key, uint32_t hash)
{
    uint32_t found = nf_locate(table, key, indexed_size(table), hash);
    if (found)
        drop_entry(table, found - 1, hash);
    return found;
}

/* ---- Longest prefixes
 * ----------------------------------------------------------------------------------------- */

static bool prefix_fits(struct nf_table *table) { return !table->roots || lpm_reserve(table); }

static void prefix_came(struct nf_table *table, const unsigned char *own, uint32_t bits,
                        uint32_t hash)
{
    uint32_t address;
    if (!table->roots)
        return;
    memcpy(&address, own, sizeof(address));
    lpm_add(table, __builtin_bswap32(address), bits,
            nf_locate(table, own, indexed_size(table), hash));
}

/* Takes a prefix out of the arrays, while it is still in the index. */
static void forget_address(struct nf_table *table, const unsigned char *own, uint32_t bits,
                           uint32_t hash)
{
    uint32_t address, hidden = 0, entry = nf_locate(table, own, indexed_size(table), hash);
    if (!entry)
        return;
    memcpy(&address, own, sizeof(address));
    /* All shorter prefixes of this address have all places of this one, if they are of the same
     * array. */
    uint32_t least = bits <= 16 ? 0 : bits <= 24 ? 17 : 25;
    unsigned char shorter[sizeof(address) + 2];
    for (uint32_t i = 0; i < table->ordered && !hidden; i++) {
        uint32_t length = table->order[i];
        if (length < bits && length >= least)
            hidden = nf_locate(table, shorter, indexed_size(table),
                               prefix_key(table, own, length, shorter));
    }
    lpm_remove(table, __builtin_bswap32(address), bits, entry, hidden);
}

/* ---- Masks
 * ----------------------------------------------------------------------------------------------------
 */

static void mask_came(struct nf_table *table, uint32_t at, const unsigned char *own)
{
    masks_change(table, at, own, own + table->key_size, true);
}

void *nf_ternary_find(struct nf_table *table, const void *key)
{
    if (!table->fitting)
        return ternary_first(table, key);
    uint32_t first = masks_first(table, key);
    return first == NF_NONE ? NULL : value_of(table, table->order[first]);
}

/* ---- The control plane
 * ---------------------------------------------------------------------------------------- */

bool nf_table_remove(struct nf_table *table, const void *key, const void *mask, uint32_t detail)
{
    unsigned char own[2 * NF_MAX_KEY + 2];
    uint32_t size = indexed_size(table), hash;
    void *value;
    switch (table->kind) {
    case NF_ARRAY:
        value = nf_array_find(table, array_index(key));
        if (value)
            memset(value, 0, table->zeroed);
        return value;
    case NF_HASH:
    case NF_LRU:
        return nf_remove(table, key, nf_key_hash(key, size));
    case NF_LPM:
        hash = prefix_key(table, key, detail, own);
        if (table->roots)
            forget_address(table, own, detail, hash);
        if (!nf_remove(table, own, hash))
            return false;
        count_length(table, detail, (uint32_t)-1);
        return true;
    case NF_TERNARY: {
        masked_key(table, key, mask, own);
        uint32_t row = ternary_row(table, own, detail);
        if (row == NF_NONE)
            return false;
        masks_change(table, row, own, mask, false);
        give_back(table, table->order[row]);
        table->ordered--;
        memmove(table->order + row, table->order + row + 1,
                (table->ordered - row) * sizeof(*table->order));
        return true;
    }
    }
    return false;
}
