/* SPDX-License-Identifier: 0BSD
 *
 * nf_threads.c (threads) - see nf_threads.h. A ring is a circle under a lock of its own: what is
 * wanted is what a program does, not how fast.
 */
#include "nf_threads.h"

#include <stdlib.h>
#include <string.h>

struct ring {
    uint32_t locked;
    uint32_t first;
    uint32_t count;
    unsigned char (*entries)[NF_RING_ENTRY];
};

uint64_t nf_shared_words[NF_RINGS];
bool nf_all_done;
uint32_t nf_lock_words[NF_LOCK_WORDS];

static struct ring rings[NF_RINGS];
static uint32_t ring_entries;
static unsigned char *records;
static size_t record_size;

static bool make_ring(uint32_t number)
{
    rings[number].entries = calloc(ring_entries, NF_RING_ENTRY);
    return rings[number].entries != NULL;
}

bool nf_make_rings(uint32_t queues, uint32_t entries)
{
    bool made = true;
    ring_entries = entries;
    for (uint32_t i = 0; i < queues; i++)
        made = made && make_ring(i);
    return made && make_ring(NF_LEFT) && make_ring(NF_FREE_RECORDS);
}

static struct ring *lock(uint32_t number)
{
    struct ring *ring = &rings[number];
    while (__atomic_exchange_n(&ring->locked, 1, __ATOMIC_ACQUIRE))
        nf_board_relax();
    return ring;
}

static void unlock(struct ring *ring) { __atomic_store_n(&ring->locked, 0, __ATOMIC_RELEASE); }

bool nf_ring_put(uint32_t number, const void *entry, size_t size)
{
    struct ring *ring = lock(number);
    bool fits = ring->count < ring_entries;
    if (fits) {
        memcpy(ring->entries[(ring->first + ring->count) % ring_entries], entry, size);
        ring->count++;
    }
    unlock(ring);
    return fits;
}

bool nf_ring_get(uint32_t number, void *entry, size_t size)
{
    struct ring *ring = lock(number);
    bool found = ring->count > 0;
    if (found) {
        memcpy(entry, ring->entries[ring->first], size);
        ring->first = (ring->first + 1) % ring_entries;
        ring->count--;
    }
    unlock(ring);
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
