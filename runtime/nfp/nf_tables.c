/* SPDX-License-Identifier: 0BSD
 *
 * nf_tables.c (nfp) - see nf_tables.h. Cost of a lookup: one read of 64 bytes, one of the key; of
 * an insertion or deletion four to six operations more for the lists.
 */
#include "nf_tables.h"

#include "nf_table_core.h"

/* Transfer registers that one operation fills. */
#define BURST 64

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

static bool is_live(const struct nf_table *table, uint32_t number)
{
    return head_of(table, number).live;
}
static uint32_t detail_of(const struct nf_table *table, uint32_t number)
{
    return head_of(table, number).detail;
}
static void *key_of(const struct nf_table *table, uint32_t number)
{
    return entry_at(table, number) + sizeof(struct nf_entry);
}
static void *value_of(const struct nf_table *table, uint32_t number)
{
    return entry_at(table, number) + table->value_at;
}
static bool has_key(const struct nf_table *table, uint32_t number, const void *key, uint32_t size)
{
    uint8_t have[2 * NF_MAX_KEY + 8];
    load(table, have, key_of(table, number), size);
    return memcmp(have, key, size) == 0;
}
static bool key_before(const struct nf_table *table, uint32_t number, uint32_t other)
{
    uint8_t own[NF_MAX_KEY + 8], others[NF_MAX_KEY + 8];
    load(table, own, key_of(table, number), table->key_size);
    load(table, others, key_of(table, other), table->key_size);
    return memcmp(own, others, table->key_size) < 0;
}
static bool matches(const struct nf_table *table, uint32_t number, const void *key)
{
    uint8_t have[2 * NF_MAX_KEY + 8];
    load(table, have, key_of(table, number), 2 * table->key_size);
    return masked_equal(key, have, have + table->key_size, table->key_size);
}

struct nf_table *nf_table_new(enum nf_table_kind kind, enum nf_memory memory, uint32_t capacity,
                              uint32_t key_size, uint32_t value_size, uint32_t string_size)
{
    struct nf_table *table = nfp_allocate(sizeof(*table));
    if (!table || key_size > NF_MAX_KEY)
        return NULL;
    table->kind = kind;
    table->memory = memory;
    table->capacity = capacity;
    table->key_size = key_size;
    table->value_size = value_size;
    table->zeroed = value_size - string_size;
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
            uint8_t key[NF_MAX_KEY + 8];
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

static void fresh(struct nf_table *table, uint32_t number, const void *key, uint32_t size,
                  uint32_t detail)
{
    struct nf_entry head = {NF_NONE, NF_NONE, detail, 1};
    set_head(table, number, &head);
    store(table, entry_at(table, number) + sizeof(head), key, size);
    static const uint8_t zero[BURST];
    for (uint32_t at = 0; at < table->zeroed; at += BURST) {
        uint32_t rest = round8(table->zeroed) - at;
        store(table, (__mem uint8_t *)value_of(table, number) + at, zero,
              rest < BURST ? rest : BURST);
    }
}

static void evict(struct nf_table *table)
{
    uint32_t number = table->oldest, where = 0, size = table->key_size;
    uint8_t key[NF_MAX_KEY + 8];
    load(table, key, entry_at(table, number) + sizeof(struct nf_entry), size);
    if (!table->small)
        locate(table, key, size, nf_key_hash(key, size), &where);
    leave(table, where);
    unlink_use(table, number);
    give_back(table, number);
    table->evicted++;
}

static void *insert_indexed(struct nf_table *table, const void *key, uint32_t hash, uint32_t detail)
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
    void *value = insert_indexed(table, key, hash, 0);
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

/* ---- Prefixes and masks: nothing beside the index and the order
 * ------------------------------------------------------------- */

static bool prefix_fits(struct nf_table *table)
{
    (void)table;
    return true;
}
static void prefix_came(struct nf_table *table, const unsigned char *own, uint32_t bits,
                        uint32_t hash)
{
    (void)table;
    (void)own;
    (void)bits;
    (void)hash;
}
static void mask_came(struct nf_table *table, uint32_t at, const unsigned char *own)
{
    (void)table;
    (void)at;
    (void)own;
}

void *nf_ternary_find(struct nf_table *table, const void *key) { return ternary_first(table, key); }
