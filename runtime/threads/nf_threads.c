/* SPDX-License-Identifier: 0BSD
 *
 * nf_threads.c (threads) - see nf_threads.h. A ring is a circle under a lock of its own: engines are many more than
 * CPUs here, and what is wanted is what a program does, not how fast.
 */
#define _GNU_SOURCE
#include "nf_threads.h"

#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct ring {
    pthread_mutex_t lock;
    uint32_t first;
    uint32_t count;
    unsigned char (*entries)[NF_RING_ENTRY];
};

uint64_t nf_shared_words[NF_RINGS];
bool nf_all_done;
uint32_t nf_lock_words[NF_LOCK_WORDS];

static struct ring rings[NF_RINGS];
static unsigned char *records;
static size_t record_size;

static __attribute__((constructor)) void make_locks(void)
{
    for (int i = 0; i < NF_RINGS; i++)
        pthread_mutex_init(&rings[i].lock, NULL);
}

bool nf_ring_put(uint32_t number, const void *entry, size_t size)
{
    struct ring *ring = &rings[number];
    pthread_mutex_lock(&ring->lock);
    if (!ring->entries)
        ring->entries = calloc(NF_RING_ENTRIES, NF_RING_ENTRY);
    bool fits = ring->entries && ring->count < NF_RING_ENTRIES;
    if (fits) {
        memcpy(ring->entries[(ring->first + ring->count) % NF_RING_ENTRIES], entry, size);
        ring->count++;
    }
    pthread_mutex_unlock(&ring->lock);
    return fits;
}

bool nf_ring_get(uint32_t number, void *entry, size_t size)
{
    struct ring *ring = &rings[number];
    pthread_mutex_lock(&ring->lock);
    bool found = ring->count > 0;
    if (found) {
        memcpy(entry, ring->entries[ring->first], size);
        ring->first = (ring->first + 1) % NF_RING_ENTRIES;
        ring->count--;
    }
    pthread_mutex_unlock(&ring->lock);
    return found;
}

bool nf_make_records(uint32_t count, size_t size)
{
    record_size = (size + 63) & ~(size_t)63;
    records = calloc(count, record_size);
    for (uint32_t i = 0; records && i < count; i++)
        if (!nf_ring_put(NF_FREE_RECORDS, &i, sizeof(i)))
            return false;
    return records != NULL;
}

void *nf_record_at(uint32_t number) { return records + number * record_size; }

void nf_yield(void) { sched_yield(); }

uint64_t nf_clock_cycles(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}
