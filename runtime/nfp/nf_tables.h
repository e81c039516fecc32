/* SPDX-License-Identifier: 0BSD
 *
 * nf_tables.h (nfp) - tables in the chip's memories, each owned by one engine, or only read by
 * several.
 *
 * Entries lie in one array in the memory that the plan chose and never move. Exact matches are
 * found through buckets of 64 bytes, which one read brings into transfer registers: a mark whether
 * keys that belong here went on to the next bucket, and seven pairs of a key's hash and its entry's
 * number. Buckets are at most 43 % full, so that mark is rare. A lookup is one read of a bucket and
 * one of a key. In a table of at most 16 entries that the plan put into the CAM, the CAM finds the
 * entry: its tags are key hashes, entry i of the CAM is entry i of the table, and the key is
 * compared, so two keys of one hash are only slower. An engine has one CAM, so one table of its
 * uses it; the others are searched.
 *
 * Same interface and meaning as runtime/host/nf_tables.h. Everything but an entry's value is read
 * and written by the chip's operations.
 */
#ifndef NF_TABLES_H
#define NF_TABLES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "nf_abi.h"
#include "nfp_chip.h"

enum nf_memory {
    NF_IN_CAM,
    NF_IN_CLS,
    NF_IN_CTM,
    NF_IN_IMEM,
    NF_IN_EMEM,
    NF_IN_LMEM,
    /* Behind PCI Express: of stages that run there. */
    NF_IN_HOST
};

#define NF_NONE UINT32_MAX
#define NF_CAM_ENTRIES 16
#define NF_BUCKET_BYTES 64
#define NF_BUCKET_SLOTS 7

struct nf_entry {
    uint32_t previous;
    uint32_t next;
    uint32_t detail;
    uint32_t live;
};

struct nf_table {
    enum nf_table_kind kind;
    enum nf_memory memory;
    uint32_t capacity;
    uint32_t key_size;
    uint32_t stride;
    uint32_t value_at;
    uint32_t value_size;
    /* Bytes of a new value that are zero: all but those of its byte string. */
    uint32_t zeroed;
    uint32_t count;
    /* Buckets less one. */
    uint32_t mask;
    uint32_t free;
    uint32_t newest;
    uint32_t oldest;
    uint32_t ordered;
    /* The engine's CAM finds entries; few entries without it are searched. */
    bool cam;
    bool small;
    __mem uint8_t *buckets;
    __mem uint8_t *entries;
    uint32_t *of_length;
    uint32_t *order;
    uint64_t refused;
    uint64_t evicted;
};

struct nf_table *nf_table_new(enum nf_table_kind kind, enum nf_memory memory, uint32_t capacity,
                              uint32_t key_size, uint32_t value_size, uint32_t string_size);
/* Makes the CAM of the engine that calls the one of this table. */
void nf_table_use_cam(struct nf_table *table);
void *nf_table_get(struct nf_table *table, const void *key, const void *mask, uint32_t detail);
void *nf_table_put(struct nf_table *table, const void *key, const void *mask, uint32_t detail);
struct nf_entry *nf_table_next(struct nf_table *table, uint32_t *at);
const void *nf_table_key(struct nf_entry *entry);
uint32_t nf_table_detail(const struct nf_entry *entry);
void *nf_table_value(const struct nf_table *table, struct nf_entry *entry);
uint64_t nf_table_refused(const struct nf_table *table);
uint64_t nf_table_evicted(const struct nf_table *table);

void *nf_insert(struct nf_table *table, const void *key, uint32_t hash);
bool nf_remove(struct nf_table *table, const void *key, uint32_t hash);
void *nf_find(struct nf_table *table, const void *key, uint32_t size, uint32_t hash);
void *nf_least(struct nf_table *table, uint32_t at, uint32_t size, bool is_signed,
               const void **key);
void *nf_prefix_find(struct nf_table *table, const void *key, uint32_t bits);
void *nf_ternary_find(struct nf_table *table, const void *key);
void nf_lru_touch(struct nf_table *table, const void *value);

/* The CRC unit over the key, and a mix: every bit of the CRC reaches every bit of the hash. */
static inline uint32_t nf_key_hash(const void *key, uint32_t size)
{
    const unsigned char *bytes = key;
    crc_write(size);
    for (uint32_t at = 0; at < size; at += 4) {
        uint32_t word = 0;
        memcpy(&word, bytes + at, size - at < 4 ? size - at : 4);
        crc_32_be(word, CRC_BYTES_0_3);
    }
    uint32_t hash = crc_read();
    hash = (hash ^ hash >> 16) * 0x85ebca6b;
    hash = (hash ^ hash >> 13) * 0xc2b2ae35;
    return hash ^ hash >> 16;
}

static inline void *nf_hash_find(struct nf_table *table, const void *key, uint32_t size,
                                 uint32_t hash)
{
    return nf_find(table, key, size, hash);
}

static inline void *nf_lru_find(struct nf_table *table, const void *key, uint32_t size,
                                uint32_t hash)
{
    void *value = nf_find(table, key, size, hash);
    nf_lru_touch(table, value);
    return value;
}

static inline void *nf_lpm_find(struct nf_table *table, const void *key, uint32_t size)
{
    return nf_prefix_find(table, key, 8 * size);
}

static inline void *nf_array_find(struct nf_table *table, uint32_t index)
{
    return index < table->capacity ? table->entries + (size_t)index * table->stride : NULL;
}

#endif
