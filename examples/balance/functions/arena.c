/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * arena.c - see arena.h.
 */
#include "arena.h"

#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "function.h"

#define MAGIC 0x6e66626c6e6b7631u

static struct arena *map(int fd, size_t size)
{
    int flags = MAP_SHARED | MAP_POPULATE | (fd < 0 ? MAP_ANONYMOUS : 0);
    void *at = mmap(NULL, size, PROT_READ | PROT_WRITE, flags, fd, 0);
    return at == MAP_FAILED ? NULL : at;
}

struct arena *arena_open(const char *path, uint32_t keys)
{
    uint32_t buckets = 1;
    /* A quarter full at most, so that a bucket hardly ever is. */
    while (buckets * (TABLE_WAYS / 4) < keys)
        buckets *= 2;
    size_t size = sizeof(struct arena) + buckets * sizeof(struct bucket);
    struct stat found;
    int fd = -1;
    if (path) {
        fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
        /* Only one process makes it; the others find it made. */
        if (fd < 0 || flock(fd, LOCK_EX) < 0 || fstat(fd, &found) < 0 ||
            (found.st_size == 0 && ftruncate(fd, (off_t)size) < 0)) {
            perror(path);
            return NULL;
        }
        if (found.st_size != 0 && (size_t)found.st_size != size) {
            fprintf(stderr, "%s: not a table of %u buckets; take another file, or remove it\n", path, buckets);
            close(fd);
            return NULL;
        }
    }
    struct arena *arena = map(fd, size);
    if (!arena)
        perror(path ? path : "memory for the table");
    if (arena && !arena->ready) {
        arena->magic = MAGIC;
        arena->buckets = buckets;
        arena->ready = 1;
    }
    if (arena && arena->magic != MAGIC) {
        fprintf(stderr, "%s: not a worker's table; take another file\n", path);
        arena = NULL;
    }
    if (fd >= 0) {
        /* The mapping keeps the file open, and with it the lock. */
        flock(fd, LOCK_UN);
        close(fd);
    }
    return arena;
}

static struct bucket *bucket_of(struct arena *arena, uint64_t key)
{
    return &arena->bucket[mix(key) & (arena->buckets - 1)];
}

struct entry *table_hold(struct arena *arena, uint64_t key, bool make)
{
    struct bucket *bucket = bucket_of(arena, key);
    struct entry *empty = NULL;
    while (__atomic_exchange_n(&bucket->lock, 1, __ATOMIC_ACQUIRE))
        sched_yield();
    for (int way = 0; way < TABLE_WAYS; way++) {
        struct entry *entry = &bucket->entries[way];
        if (entry->used && entry->key == key)
            return entry;
        if (!entry->used && !empty)
            empty = entry;
    }
    if (make && empty) {
        *empty = (struct entry){.key = key, .used = 1};
        return empty;
    }
    if (make)
        __atomic_fetch_add(&arena->refused, 1, __ATOMIC_RELAXED);
    return NULL;
}

void table_release(struct arena *arena, uint64_t key)
{
    __atomic_store_n(&bucket_of(arena, key)->lock, 0, __ATOMIC_RELEASE);
}
