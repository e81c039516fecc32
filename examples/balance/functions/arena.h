/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * arena.h - a table that threads and processes share: memory of one process, or a file that several map.
 *
 * Buckets of eight entries, a spin lock each, found by hash; a key whose bucket is full is refused. What a caller does
 * between table_hold and table_release happens at once for everybody else, so two processes that serve packets of one
 * key answer as one process would. There are no pointers in it: every process maps it somewhere else.
 */
#ifndef ARENA_H
#define ARENA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TABLE_VALUE 64
#define TABLE_WAYS 8

struct entry {
    uint64_t key;
    uint32_t used;
    uint32_t size;
    uint8_t value[TABLE_VALUE];
};

struct bucket {
    uint32_t lock;
    uint32_t pad[15];
    struct entry entries[TABLE_WAYS];
};

struct arena {
    uint64_t magic;
    uint32_t buckets;
    uint32_t ready;
    uint64_t refused;
    uint64_t pad[5];
    struct bucket bucket[];
};

/* An arena for at least `keys` keys, in the file if one is named; made by whoever comes first. NULL with a message. */
struct arena *arena_open(const char *path, uint32_t keys);

/* Takes the lock of the key's bucket and gives its entry; NULL if there is none and none is to be made, or no room. */
struct entry *table_hold(struct arena *arena, uint64_t key, bool make);
/* Gives the lock back. */
void table_release(struct arena *arena, uint64_t key);

#endif
