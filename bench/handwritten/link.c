/* SPDX-License-Identifier: 0BSD
 *
 * link.c - what an entry costs in a queue between two threads: runtime/host/nf_link.h against a
 * copy ring by hand. Arguments: CPUs of producer and consumer. Prints bytes, and ns of processor
 * time per entry, in and out, of ours and by hand: best of several runs, which take turns.
 */
#define _GNU_SOURCE
#include "nf_link_far.h"

#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define ENTRIES 256
#define MESSAGES (ENTRIES / 2 * 8000)
#define RUNS 7

/* By hand: a flag in front of each entry, as small as the payload allows. */
struct hand {
    uint8_t *entries;
    uint32_t entry_bytes;
    uint64_t at;
};

static inline bool hand_put(struct hand *ring, const void *bytes, uint32_t length)
{
    uint8_t *entry = ring->entries + (ring->at & (ENTRIES - 1)) * ring->entry_bytes;
    if (__atomic_load_n((uint32_t *)entry, __ATOMIC_ACQUIRE))
        return false;
    memcpy(entry + 8, bytes, length);
    __atomic_store_n((uint32_t *)entry, length, __ATOMIC_RELEASE);
    ring->at++;
    return true;
}

static inline uint32_t hand_get(struct hand *ring, void *bytes)
{
    uint8_t *entry = ring->entries + (ring->at & (ENTRIES - 1)) * ring->entry_bytes;
    uint32_t length = __atomic_load_n((uint32_t *)entry, __ATOMIC_ACQUIRE);
    if (!length)
        return 0;
    memcpy(bytes, entry + 8, length);
    __atomic_store_n((uint32_t *)entry, 0, __ATOMIC_RELEASE);
    ring->at++;
    return length;
}

static uint32_t length;
static int cpus[2];
static void *memory;
static uint32_t entry_bytes;
static double spent[2];
static int by_hand;

static double cpu_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

static void pin(int cpu)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    sched_setaffinity(0, sizeof(set), &set);
}

/* Whether half a circle from `at` on is to be filled, or drained. */
static bool half_ready(const struct nf_link *link, const struct hand *ring, bool producer)
{
    uint64_t at = (by_hand ? ring->at : link->at) + ENTRIES / 2 - 1;
    uint32_t word = nf_link_load((uint8_t *)ring->entries + (at & (ENTRIES - 1)) * entry_bytes);
    if (by_hand)
        return producer == !word;
    return word == nf_link_turn(link, at, producer ? NF_LINK_FREE : NF_LINK_FULL);
}

static uint32_t half(struct nf_link *link, struct hand *ring, bool producer, uint8_t *bytes)
{
    uint32_t done = 0, got;
    uint8_t channel;
    if (producer && by_hand)
        while (done < ENTRIES / 2 && hand_put(ring, bytes, length))
            done++;
    else if (producer)
        while (done < ENTRIES / 2 && nf_link_put(link, 0, bytes, length))
            done++;
    else if (by_hand)
        while (done < ENTRIES / 2 && hand_get(ring, bytes))
            done++;
    else
        while (done < ENTRIES / 2 && nf_link_get(link, &channel, bytes, &got))
            done++;
    return done;
}

/* One end, half a circle at a time; waiting is not counted. */
static void *end(void *number)
{
    bool producer = number == NULL;
    uint8_t bytes[4096] = {1};
    struct nf_link link;
    struct hand ring = {(uint8_t *)memory + sizeof(struct nf_link_shared), entry_bytes, 0};
    pin(cpus[!producer]);
    nf_link_attach(&link, memory, ENTRIES, entry_bytes, NF_LINK_PLAIN, !producer);
    double total = 0;
    for (uint32_t done = 0; done < MESSAGES;) {
        while (!half_ready(&link, &ring, producer))
            sched_yield();
        double start = cpu_ns();
        done += half(&link, &ring, producer, bytes);
        total += cpu_ns() - start;
    }
    spent[!producer] = total / MESSAGES;
    return NULL;
}

int main(int argc, char **argv)
{
    if (argc != 3)
        return 2;
    cpus[0] = atoi(argv[1]);
    cpus[1] = atoi(argv[2]);
    /* The last six are parts of the longest: what is alive of a message. */
    static const uint32_t lengths[] = {8, 56, 64, 256, 1024, 208, 344, 512, 680, 768, 816};
    for (size_t i = 0; i < sizeof(lengths) / sizeof(*lengths); i++) {
        length = lengths[i];
        entry_bytes = 8 + length;
        double best[2] = {1e9, 1e9};
        for (int run = 0; run < RUNS; run++)
            for (by_hand = 0; by_hand < 2; by_hand++) {
                size_t all = (nf_link_bytes(ENTRIES, entry_bytes, NF_LINK_PLAIN) + 63) / 64 * 64;
                memory = aligned_alloc(64, all);
                memset(memory, 0, all);
                pthread_t producer, consumer;
                pthread_create(&consumer, NULL, end, memory);
                pthread_create(&producer, NULL, end, NULL);
                pthread_join(producer, NULL);
                pthread_join(consumer, NULL);
                double both = spent[0] + spent[1];
                best[by_hand] = both < best[by_hand] ? both : best[by_hand];
                free(memory);
            }
        printf("%u %.2f %.2f\n", length, best[0], best[1]);
    }
    return 0;
}
