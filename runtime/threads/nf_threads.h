/* SPDX-License-Identifier: 0BSD
 *
 * nf_threads.h (threads) - rings, records and words that cores share. nf_threads.c has them; it
 * knows nothing of a program but what nf_main.h tells it, and nothing of the machine but
 * nf_board.h.
 */
#ifndef NF_THREADS_H
#define NF_THREADS_H

#include "nf_board.h"

/* Rings by number: engines' queues first, then what left by a port, in that order, and the free
 * records. */
#define NF_RINGS 1024
#define NF_LEFT (NF_RINGS - 2)
#define NF_FREE_RECORDS (NF_RINGS - 1)
#define NF_RING_ENTRY 64
/* Locks of tables, by number. */
#define NF_LOCK_WORDS 4096

/* Words that all may read and one writes: the engines' progress. */
extern uint64_t nf_shared_words[NF_RINGS];
extern bool nf_all_done;
/* 1 in those that are taken. */
extern uint32_t nf_lock_words[NF_LOCK_WORDS];

/* Makes the first `queues` rings and the two last, with `entries` places each; false without
 * memory. */
bool nf_make_rings(uint32_t queues, uint32_t entries);
/* Puts an entry of at most NF_RING_ENTRY bytes in, or takes the oldest out; false if the ring is
 * full, or empty. */
bool nf_ring_put(uint32_t ring, const void *entry, size_t size);
bool nf_ring_get(uint32_t ring, void *entry, size_t size);
/* Makes count records of size bytes, all free; false without memory. */
bool nf_make_records(uint32_t count, size_t size);
void *nf_record_at(uint32_t number);

#endif
