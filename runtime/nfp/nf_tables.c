/* SPDX-License-Identifier: 0BSD
 *
 * nf_tables.c (nfp) - see nf_tables.h. Cost of a lookup: one read of 64 bytes, one of the key; of
 * an insertion or deletion four to six operations more for the lists.
 */
#include "nf_tables.h"

#define MAX_KEY 256
/* Transfer registers that one operation fills. */
#define BURST 64

static uint32_t round8(uint32_t size) { return (size + 7) & ~7u; }

static uint32_t indexed_size(const struct nf_table *table)
{
    return table->kind == NF_LPM ? table->key_size + 1 + (table->key_size > 31) : table->key_size;
}

static uint32_t stored_size(const struct nf_table *table)
{
    return table->kind == NF_TERNARY ? 2 * table->key_size : indexed_size(table);
}

/* ---- Memory
 * ------------------------------------------------------------------------------------------------------
 */

/* Read and written by instructions: the engine's own memory, and that of a host's core. */
static bool is_own(const struct nf_table *table)
{
    return table->memory == NF_IN_LMEM || table->memory == NF_IN_HOST;
}

static void load(const struct nf_table *table, void *to, __mem const void *from, uint32_t size)
{
    for (uint32_t at = 0; at < size; at += BURST) {
        __xread uint32_t in[BURST / 4];
        uint32_t some = size - at < BURST ? size - at : BURST, whole = (some + 3) & ~3u;
        if (is_own(table))
            memcpy(in, (uint8_t const *)from + at, some);
        else if (table->memory == NF_IN_CLS)
            cls_read(in, (__cls void *)((uintptr_t)from + at), whole);
        else
            mem_read32(in, (__mem void *)((uintptr_t)from + at), whole);
        memcpy((uint8_t *)to + at, in, some);
    }
}

/* Bytes up to the next word are written, too: every member has whole words to itself. */
static void store(const struct nf_table *table, __mem void *to, const void *from, uint32_t size)
{
    for (uint32_t at = 0; at < size; at += BURST) {
        __xwrite uint32_t out[BURST / 4] = {0};
        uint32_t some = size - at < BURST ? size - at : BURST, whole = (some + 3) & ~3u;
        memcpy(out, (const uint8_t *)from + at, some);
        if (is_own(table))
            memcpy((uint8_t *)to + at, out, some);
        else if (table->memory == NF_IN_CLS)
            cls_write(out, (__cls void *)((uintptr_t)to + at), whole);
        else
            mem_write32(out, (__mem void *)((uintptr_t)to + at), whole);
    }
}

static __mem uint8_t *entry_at(const struct nf_table *table, uint32_t number)
{
    return table->entries + (size_t)number * table->stride;
}

static struct nf_entry head_of(const struct nf_table *table, uint32_t number)
{
    struct nf_entry head;
    load(table, &head, entry_at(table, number), sizeof(head));
    return head;
}

static void set_head(const struct nf_table *table, uint32_t number, const struct nf_entry *head)
{
    store(table, entry_at(table, number), head, sizeof(*head));
}

static void *value_of(const struct nf_table *table, uint32_t number)
{
    return entry_at(table, number) + table->value_at;
}

static bool has_key(const struct nf_table *table, uint32_t number, const void *key, uint32_t size)
{
    uint8_t have[2 * MAX_KEY + 8];
    load(table, have, entry_at(table, number) + sizeof(struct nf_entry), size);
    return memcmp(have, key, size) == 0;
}

struct nf_table *nf_table_new(enum nf_table_kind kind, enum nf_memory memory, uint32_t capacity,
                              uint32_t key_size, uint32_t value_size)
{
    struct nf_table *table = nfp_allocate(sizeof(*table));
    if (!table || key_size > MAX_KEY)
        return NULL;
    table->kind = kind;
    table->memory = memory;
    table->capacity = capacity;
    table->key_size = key_size;
    table->value_size = value_size;
    table->newest = table->oldest = table->free = NF_NONE;
    table->value_at =
        kind == NF_ARRAY ? 0 : (uint32_t)sizeof(struct nf_entry) + round8(stored_size(table));
    table->stride = table->value_at + round8(value_size);
    table->entries = nfp_allocate((size_t)(capacity ? capacity : 1) * table->stride);
    bool exact = kind == NF_HASH || kind == NF_LRU;
    table->small = exact && memory == NF_IN_CAM && capacity <= NF_CAM_ENTRIES;
    if ((exact && !table->small) || kind == NF_LPM) {
        uint32_t buckets = 1;
        while (buckets < capacity / 3 + 1)
            buckets *= 2;
        table->mask = buckets - 1;
        table->buckets = nfp_allocate((size_t)buckets * NF_BUCKET_BYTES);
    }
    if (kind == NF_LPM)
        table->of_length = nfp_allocate((8 * (size_t)key_size + 1) * sizeof(uint32_t));
    if (kind == NF_LPM || kind == NF_TERNARY)
        table->order = nfp_allocate(((kind == NF_LPM ? 8 * (size_t)key_size : capacity) + 1) *
                                    sizeof(uint32_t));
    return table->entries ? table : NULL;
}

/* ---- The list of use
 * --------------------------------------------------------------------------------------------- */

static void link_to(struct nf_table *table, uint32_t number, uint32_t previous, uint32_t next,
                    bool forward)
{
    struct nf_entry head = head_of(table, number);
    if (forward)
        head.next = next;
    else
        head.previous = previous;
    set_head(table, number, &head);
}

static void unlink_use(struct nf_table *table, uint32_t number)
{
    struct nf_entry head = head_of(table, number);
    if (head.previous == NF_NONE)
        table->newest = head.next;
    else
        link_to(table, head.previous, 0, head.next, true);
    if (head.next == NF_NONE)
        table->oldest = head.previous;
    else
        link_to(table, head.next, head.previous, 0, false);
}

static void link_newest(struct nf_table *table, uint32_t number)
{
    struct nf_entry head = head_of(table, number);
    head.previous = NF_NONE;
    head.next = table->newest;
    set_head(table, number, &head);
    if (table->newest == NF_NONE)
        table->oldest = number;
    else
        link_to(table, table->newest, number, 0, false);
    table->newest = number;
}

void nf_lru_touch(struct nf_table *table, const void *value)
{
    if (!value)
        return;
    uint32_t number =
        (uint32_t)((size_t)((const uint8_t *)value - table->value_at - table->entries) /
                   table->stride);
    if (table->newest == number)
        return;
    unlink_use(table, number);
    link_newest(table, number);
}

/* ---- Finding
 * ------------------------------------------------------------------------------------------------------
 */

/* A bucket in transfer registers: the mark, a word unused, hashes and entry numbers plus one. */
struct bucket {
    uint32_t went_on;
    uint32_t spare;
    struct {
        uint32_t hash;
        uint32_t entry;
    } slots[NF_BUCKET_SLOTS];
};

_Static_assert(sizeof(struct bucket) == NF_BUCKET_BYTES, "a bucket is one read");

static __mem uint8_t *bucket_at(const struct nf_table *table, uint32_t number)
{
    return table->buckets + (size_t)(number & table->mask) * NF_BUCKET_BYTES;
}

/* Number of the entry with this key; *where becomes its slot: bucket times 8 and slot. */
static uint32_t locate(struct nf_table *table, const void *key, uint32_t size, uint32_t hash,
                       uint32_t *where)
{
    if (table->small) {
        if (table->cam) {
            cam_lookup_t found = cam_lookup(hash);
            if (found.hit && found.entry_num < table->capacity &&
                head_of(table, found.entry_num).live && has_key(table, found.entry_num, key, size))
                return found.entry_num;
        }
        /* Not under its hash: absent, or another key of the same hash has the CAM's entry. */
        for (uint32_t i = 0; i < table->capacity; i++)
            if (head_of(table, i).live && has_key(table, i, key, size))
                return i;
        return NF_NONE;
    }
    for (uint32_t number = hash & table->mask;; number = (number + 1) & table->mask) {
        struct bucket bucket;
        load(table, &bucket, bucket_at(table, number), sizeof(bucket));
        for (uint32_t i = 0; i < NF_BUCKET_SLOTS; i++)
            if (bucket.slots[i].entry && bucket.slots[i].hash == hash &&
                has_key(table, bucket.slots[i].entry - 1, key, size)) {
                *where = (number & table->mask) * 8 + i;
                return bucket.slots[i].entry - 1;
            }
        if (!bucket.went_on)
            return NF_NONE;
    }
}

void *nf_find(struct nf_table *table, const void *key, uint32_t size, uint32_t hash)
{
    uint32_t where, number = locate(table, key, size, hash, &where);
    return number == NF_NONE ? NULL : value_of(table, number);
}

void nf_table_use_cam(struct nf_table *table)
{
    cam_clear();
    table->cam = true;
    for (uint32_t i = 0; i < table->capacity; i++)
        if (head_of(table, i).live) {
            uint8_t key[MAX_KEY + 8];
            load(table, key, entry_at(table, i) + sizeof(struct nf_entry), table->key_size);
            cam_write(i, nf_key_hash(key, table->key_size), 0);
        }
}

/* ---- Inserting and deleting
 * ---------------------------------------------------------------------------------------
 */

static void enter(struct nf_table *table, uint32_t entry, uint32_t hash)
{
    if (table->small) {
        if (table->cam)
            cam_write(entry, hash, 0);
        return;
    }
    for (uint32_t number = hash & table->mask;; number = (number + 1) & table->mask) {
        struct bucket bucket;
        load(table, &bucket, bucket_at(table, number), sizeof(bucket));
        for (uint32_t i = 0; i < NF_BUCKET_SLOTS; i++)
            if (!bucket.slots[i].entry) {
                bucket.slots[i].hash = hash;
                bucket.slots[i].entry = entry + 1;
                store(table, bucket_at(table, number) + 8 + 8 * i, &bucket.slots[i], 8);
                return;
            }
        bucket.went_on = 1;
        store(table, bucket_at(table, number), &bucket.went_on, 4);
    }
}

static void leave(struct nf_table *table, uint32_t where)
{
    uint32_t none[2] = {0, 0};
    if (!table->small)
        store(table, bucket_at(table, where / 8) + 8 + 8 * (where % 8), none, sizeof(none));
}

static uint32_t take(struct nf_table *table)
{
    uint32_t number = table->free;
    if (number == NF_NONE)
        number = table->count;
    else
        table->free = head_of(table, number).next;
    table->count++;
    return number;
}

static void give_back(struct nf_table *table, uint32_t number)
{
    struct nf_entry head = {0, table->free, 0, 0};
    set_head(table, number, &head);
    table->free = number;
    table->count--;
}

/* Writes a new entry with a zero value. */
static void fresh(struct nf_table *table, uint32_t number, const void *key, uint32_t size,
                  uint32_t detail)
{
    struct nf_entry head = {NF_NONE, NF_NONE, detail, 1};
    set_head(table, number, &head);
    store(table, entry_at(table, number) + sizeof(head), key, size);
    static const uint8_t zero[BURST];
    for (uint32_t at = 0; at < table->value_size; at += BURST) {
        uint32_t rest = round8(table->value_size) - at;
        store(table, (__mem uint8_t *)value_of(table, number) + at, zero,
              rest < BURST ? rest : BURST);
    }
}

static void evict(struct nf_table *table)
{
    uint32_t number = table->oldest, where = 0, size = table->key_size;
    uint8_t key[MAX_KEY + 8];
    load(table, key, entry_at(table, number) + sizeof(struct nf_entry), size);
    if (!table->small)
        locate(table, key, size, nf_key_hash(key, size), &where);
    leave(table, where);
    unlink_use(table, number);
    give_back(table, number);
    table->evicted++;
}

static void *insert(struct nf_table *table, const void *key, uint32_t hash, uint32_t detail)
{
    if (table->count >= table->capacity && table->kind == NF_LRU && table->capacity)
        evict(table);
    if (table->count >= table->capacity)
        return NULL;
    uint32_t number = take(table);
    fresh(table, number, key, indexed_size(table), detail);
    enter(table, number, hash);
    if (table->kind == NF_LRU)
        link_newest(table, number);
    return value_of(table, number);
}

void *nf_insert(struct nf_table *table, const void *key, uint32_t hash)
{
    void *value = insert(table, key, hash, 0);
    table->refused += !value;
    return value;
}

bool nf_remove(struct nf_table *table, const void *key, uint32_t hash)
{
    uint32_t where = 0, number = locate(table, key, indexed_size(table), hash, &where);
    if (number == NF_NONE)
        return false;
    leave(table, where);
    if (table->kind == NF_LRU)
        unlink_use(table, number);
    give_back(table, number);
    return true;
}

void *nf_least(struct nf_table *table, uint32_t at, uint32_t size, bool is_signed, const void **key)
{
    uint32_t least = NF_NONE, left = table->count, key_size = table->key_size;
    uint64_t first = 0;
    uint8_t own[MAX_KEY + 8], best[MAX_KEY + 8];
    for (uint32_t number = 0; left && number < table->capacity; number++) {
        if (!head_of(table, number).live)
            continue;
        left--;
        uint64_t order = 0;
        memcpy(&order, (const uint8_t *)value_of(table, number) + at, size);
        order ^= is_signed ? 1ull << (8 * size - 1) : 0;
        load(table, own, entry_at(table, number) + sizeof(struct nf_entry), key_size);
        if (least != NF_NONE &&
            (order > first || (order == first && memcmp(own, best, key_size) > 0)))
            continue;
        least = number;
        first = order;
        memcpy(best, own, key_size);
    }
    if (least == NF_NONE)
        return NULL;
    *key = (const void *)(entry_at(table, least) + sizeof(struct nf_entry));
    return value_of(table, least);
}

/* ---- Prefixes and masks
 * --------------------------------------------------------------------------------------------
 */

/* The key's first bits with their count behind it; gives the hash. */
static uint32_t prefix_key(const struct nf_table *table, const void *key, uint32_t bits,
                           uint8_t *to)
{
    for (uint32_t i = 0; i < table->key_size; i++) {
        uint32_t left = bits > 8 * i ? bits - 8 * i : 0;
        to[i] = ((const uint8_t *)key)[i] & (uint8_t)(left >= 8 ? 0xff : 0xff00 >> left);
    }
    to[table->key_size] = (uint8_t)bits;
    to[table->key_size + 1] = (uint8_t)(bits >> 8);
    return nf_key_hash(to, indexed_size(table));
}

void *nf_prefix_find(struct nf_table *table, const void *key)
{
    uint8_t prefix[MAX_KEY + 2];
    for (uint32_t i = 0; i < table->ordered; i++) {
        uint32_t hash = prefix_key(table, key, table->order[i], prefix);
        void *value = nf_find(table, prefix, indexed_size(table), hash);
        if (value)
            return value;
    }
    return NULL;
}

void *nf_ternary_find(struct nf_table *table, const void *key)
{
    uint32_t size = table->key_size;
    for (uint32_t i = 0; i < table->ordered; i++) {
        uint8_t have[2 * MAX_KEY + 8], differ = 0;
        load(table, have, entry_at(table, table->order[i]) + sizeof(struct nf_entry), 2 * size);
        for (uint32_t b = 0; b < size; b++)
            differ |= (uint8_t)((((const uint8_t *)key)[b] ^ have[b]) & have[size + b]);
        if (!differ)
            return value_of(table, table->order[i]);
    }
    return NULL;
}

/* ---- The control plane
 * ---------------------------------------------------------------------------------------------
 */

static void *put_prefix(struct nf_table *table, const void *key, uint32_t bits)
{
    uint8_t own[MAX_KEY + 2];
    uint32_t hash = prefix_key(table, key, bits, own);
    void *value = nf_find(table, own, indexed_size(table), hash);
    if (!value && (value = insert(table, own, hash, bits))) {
        table->of_length[bits]++;
        table->ordered = 0;
        for (uint32_t length = 8 * table->key_size + 1; length-- > 0;)
            if (table->of_length[length])
                table->order[table->ordered++] = length;
    }
    return value;
}

static void *put_mask(struct nf_table *table, const void *key, const void *mask, uint32_t priority)
{
    uint8_t own[2 * MAX_KEY];
    uint32_t size = table->key_size;
    for (uint32_t i = 0; i < size; i++) {
        own[size + i] = ((const uint8_t *)mask)[i];
        own[i] = ((const uint8_t *)key)[i] & own[size + i];
    }
    for (uint32_t i = 0; i < table->ordered; i++)
        if (head_of(table, table->order[i]).detail == priority &&
            has_key(table, table->order[i], own, 2 * size))
            return value_of(table, table->order[i]);
    if (table->count >= table->capacity)
        return NULL;
    uint32_t number = take(table), at = table->ordered++;
    fresh(table, number, own, 2 * size, priority);
    for (; at > 0 && head_of(table, table->order[at - 1]).detail < priority; at--)
        table->order[at] = table->order[at - 1];
    table->order[at] = number;
    return value_of(table, number);
}

void *nf_table_put(struct nf_table *table, const void *key, const void *mask, uint32_t detail)
{
    uint32_t hash, index;
    void *value;
    switch (table->kind) {
    case NF_ARRAY:
        memcpy(&index, key, sizeof(index));
        return nf_array_find(table, index);
    case NF_LPM:
        return put_prefix(table, key, detail);
    case NF_TERNARY:
        return put_mask(table, key, mask, detail);
    case NF_HASH:
    case NF_LRU:
        break;
    }
    hash = nf_key_hash(key, table->key_size);
    value = nf_find(table, key, table->key_size, hash);
    if (value && table->kind == NF_LRU)
        nf_lru_touch(table, value);
    return value ? value : insert(table, key, hash, 0);
}

struct nf_entry *nf_table_next(struct nf_table *table, uint32_t *at)
{
    while (table->kind != NF_ARRAY && *at < table->capacity) {
        uint32_t number = (*at)++;
        if (head_of(table, number).live)
            return (struct nf_entry *)(void *)entry_at(table, number);
    }
    return NULL;
}

const void *nf_table_key(struct nf_entry *entry) { return entry + 1; }
uint32_t nf_table_detail(const struct nf_entry *entry) { return entry->detail; }
void *nf_table_value(const struct nf_table *table, struct nf_entry *entry)
{
    return (uint8_t *)(void *)entry + table->value_at;
}
uint64_t nf_table_refused(const struct nf_table *table) { return table->refused; }
uint64_t nf_table_evicted(const struct nf_table *table) { return table->evicted; }
