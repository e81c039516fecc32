/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * Checks of queues between NIC and host (runtime/host/nf_link.h): every entry once and in order,
 * whatever the engine, the scheduler or the death of an end do. `link SEED [ROUNDS]` runs all; the
 * first thing that is wrong ends it.
 */
#define _GNU_SOURCE
#include "nf_dma_model.h"
#include "nf_link_words.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define MOST 4096

static uint64_t state;

static uint64_t below(uint64_t n)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state % n;
}

static void wrong(const char *what, uint64_t a, uint64_t b)
{
    printf("wrong: %s (%llu, %llu)\n", what, (unsigned long long)a, (unsigned long long)b);
    exit(1);
}

/* Entry `number`: its length, channel and bytes follow from it. */
static uint32_t length_of(uint64_t number, uint32_t room)
{
    uint64_t mixed = number * 0x9e3779b97f4a7c15u;
    return 8 + (uint32_t)((mixed >> 40) % (room - 7));
}

static void fill(uint8_t *bytes, uint64_t number, uint32_t length)
{
    for (uint32_t i = 8; i < length; i++)
        bytes[i] = (uint8_t)(number * 131 + i);
    memcpy(bytes, &number, 8);
}

/* The number of an entry that is as it was put in. */
static uint64_t check(const uint8_t *bytes, uint32_t length, uint8_t channel, uint32_t room)
{
    uint8_t expected[MOST];
    uint64_t number;
    memcpy(&number, bytes, 8);
    if (length != length_of(number, room) || channel != (uint8_t)(number % 7))
        wrong("length or channel of entry", number, length);
    fill(expected, number, length);
    if (memcmp(expected, bytes, length) != 0)
        wrong("bytes of entry", number, length);
    return number;
}

static void *memory(size_t bytes)
{
    void *all = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (all == MAP_FAILED)
        wrong("no memory", bytes, 0);
    return all;
}

static bool put(struct nf_link *link, uint64_t number)
{
    uint8_t bytes[MOST];
    uint32_t length = length_of(number, nf_link_room(link));
    fill(bytes, number, length);
    return nf_link_put(link, (uint8_t)(number % 7), bytes, length);
}

/* ---- Two threads on plain entries
 * --------------------------------------------------------------------------- */

struct plain {
    void *memory;
    uint32_t count, entry_bytes;
    uint64_t entries;
};

static void *plain_producer(void *argument)
{
    struct plain *plain = argument;
    struct nf_link link;
    nf_link_attach(&link, plain->memory, plain->count, plain->entry_bytes, NF_LINK_PLAIN, false);
    for (uint64_t number = 0; number < plain->entries;)
        if (put(&link, number))
            number++;
        else
            sched_yield();
    return NULL;
}

static void threads(uint32_t count, uint32_t entry_bytes, uint64_t entries)
{
    struct plain plain = {memory(nf_link_bytes(count, entry_bytes, NF_LINK_PLAIN)), count,
                          entry_bytes, entries};
    struct nf_link link;
    pthread_t producer;
    nf_link_attach(&link, plain.memory, count, entry_bytes, NF_LINK_PLAIN, true);
    pthread_create(&producer, NULL, plain_producer, &plain);
    for (uint64_t number = 0; number < entries;) {
        uint8_t bytes[MOST], channel;
        uint32_t length;
        if (!nf_link_get(&link, &channel, bytes, &length)) {
            sched_yield();
            continue;
        }
        uint64_t got = check(bytes, length, channel, nf_link_room(&link));
        if (got != number++)
            wrong("entry out of order", got, number - 1);
    }
    pthread_join(producer, NULL);
    munmap(plain.memory, nf_link_bytes(count, entry_bytes, NF_LINK_PLAIN));
}

/* ---- Values without their zeros
 * ----------------------------------------------------------------------------- */

static void words(void)
{
    uint8_t bytes[1200], packed[1400], back[1200];
    uint32_t length = (uint32_t)below(sizeof(bytes)), counts = (uint32_t)below(length + 1);
    memset(bytes, 0, sizeof(bytes));
    for (uint32_t i = 0; i < counts; i++)
        bytes[i] = 1 + (uint8_t)below(255);
    /* And a hole. */
    for (uint32_t i = (uint32_t)below(counts + 1); i < counts && below(40); i++)
        bytes[i] = 0;
    uint32_t size = nf_words_put(packed, bytes, length), masks = (length + 511) / 512 * 8;
    if (size > nf_words_most(length) || size > masks + (counts + 7) / 8 * 8)
        wrong("zeros take room", counts, size);
    memset(back, 255, sizeof(back));
    if (nf_words_get(back, length, packed, size) != size || memcmp(back, bytes, length) ||
        back[length] != 255)
        wrong("words do not come back", counts, size);
    uint32_t few = size ? (uint32_t)below(size) : 0;
    if (size && nf_words_get(back, length, packed, few) <= few)
        wrong("too few words are enough", counts, size);
}

/* ---- One thread and a bad engine
 * ---------------------------------------------------------------------------- */

static struct nf_dma_model *new_model(void)
{
    struct nf_dma_model *model = calloc(1, sizeof(*model));
    for (uint32_t i = 0; i < NF_DMA_COMMANDS; i++)
        model->commands[i] = malloc(sizeof(struct nf_dma_command));
    model->dma.start = nf_dma_model_start;
    model->random = state;
    model->line_ns = 1 + below(20);
    model->latency_ns = 1 + below(200);
    return model;
}

static void free_model(struct nf_dma_model *model)
{
    for (uint32_t i = 0; i < NF_DMA_COMMANDS; i++)
        free(model->commands[i]);
    free(model);
}

/* A write takes what entries have, with what lies between them if that is little. */
static void bytes_of_runs(void)
{
    for (uint32_t lines = 1; lines <= 8; lines++) {
        uint32_t entry_bytes = lines * NF_LINK_LINE;
        size_t bytes = nf_link_bytes(64, entry_bytes, NF_LINK_LINES);
        void *host = memory(bytes), *own = memory(bytes);
        struct nf_dma_model *model = new_model();
        struct nf_link_far far;
        uint8_t data[MOST];
        nf_link_far_attach(&far, own, host, 64, entry_bytes, false, &model->dma);
        fill(data, 0, 8);
        for (int i = 0; i < 10; i++)
            nf_link_far_put(&far, 0, data, 8, 0);
        nf_link_far_poll(&far, 0);
        bool apart = entry_bytes - NF_LINK_LINE > NF_LINK_GAP;
        uint64_t want = apart ? 10 * NF_LINK_LINE : 9 * entry_bytes + NF_LINK_LINE;
        if (far.bytes != want || far.commands != (apart ? 10 : 1) || far.moved != 10)
            wrong("bytes and commands of a run", far.bytes, far.commands);
        free_model(model);
        munmap(host, bytes);
        munmap(own, bytes);
    }
}

/* Entries across a link in one direction. The near end may die and come again: then some that it
 * had taken are gone, and counted. Ends are served now and then only, so circles get full and
 * empty. */
static void across(bool to_host, bool deaths, uint64_t entries)
{
    uint32_t count = 2u << below(6), entry_bytes = NF_LINK_LINE * (1 + (uint32_t)below(8));
    size_t bytes = nf_link_bytes(count, entry_bytes, NF_LINK_LINES);
    void *host = memory(bytes), *own = memory(bytes);
    struct nf_dma_model *model = new_model();
    struct nf_link near;
    struct nf_link_far far;
    nf_link_attach(&near, host, count, entry_bytes, NF_LINK_LINES, to_host);
    nf_link_far_attach(&far, own, host, count, entry_bytes, !to_host, &model->dma);
    uint32_t room = nf_link_room(&near);
    uint64_t sent = 0, next = 0, lost = 0, idle = 0, now = 0;
    uint8_t data[MOST], channel;
    while (next < entries) {
        now += 1 + below(30);
        nf_dma_model_run(model, now);
        nf_link_far_poll(&far, now);
        bool any = false;
        for (uint64_t burst = below(count + 1); burst && sent < entries; burst--) {
            uint32_t length = length_of(sent, room);
            fill(data, sent, length);
            bool fits = to_host ? nf_link_far_put(&far, (uint8_t)(sent % 7), data, length, now)
                                : nf_link_put(&near, (uint8_t)(sent % 7), data, length);
            if (!fits)
                break;
            sent++;
            any = true;
        }
        for (uint64_t burst = below(count + 1); burst; burst--) {
            uint32_t length;
            if (to_host && deaths && below(50) == 0) {
                /* Dies holding some. */
                struct nf_link_head head;
                for (uint64_t held = below(3); held; held--)
                    nf_link_take(&near, &head);
                nf_link_attach(&near, host, count, entry_bytes, NF_LINK_LINES, true);
                next += near.lost;
                lost += near.lost;
            }
            if (!(to_host ? nf_link_get(&near, &channel, data, &length)
                          : nf_link_far_get(&far, &channel, data, &length)))
                break;
            uint64_t got = check(data, length, channel, room);
            if (got != next++)
                wrong("entry out of order across the link", got, next - 1);
            any = true;
        }
        if (!to_host && deaths && below(50) == 0)
            nf_link_attach(&near, host, count, entry_bytes, NF_LINK_LINES, false);
        idle = any ? 0 : idle + 1;
        if (idle > 100000)
            wrong("nothing moves any more", sent, next);
    }
    if (sent != entries || (!deaths && lost))
        wrong("entries sent or lost", sent, lost);
    free_model(model);
    munmap(host, bytes);
    munmap(own, bytes);
}

/* An entry waits for the deadline and one command, whether or not others follow, though another
 * command be under way.
 */
static void deadline(void)
{
    size_t bytes = nf_link_bytes(128, 64, NF_LINK_LINES);
    void *host = memory(bytes), *own = memory(bytes);
    struct nf_dma_model *model = new_model();
    model->latency_ns = 10000;
    struct nf_link near;
    struct nf_link_far far;
    nf_link_attach(&near, host, 128, 64, NF_LINK_LINES, true);
    nf_link_far_attach(&far, own, host, 128, 64, false, &model->dma);
    far.batch = 64;
    uint64_t now = 0;
    for (int burst = 1; burst <= 40; burst++) {
        uint8_t data[MOST], channel;
        uint32_t length;
        for (int i = 0; i < burst; i++) {
            uint32_t long_as = length_of((uint64_t)i, nf_link_room(&near));
            fill(data, (uint64_t)i, long_as);
            if (!nf_link_far_put(&far, (uint8_t)(i % 7), data, long_as, now))
                wrong("no room for a burst", (uint64_t)burst, (uint64_t)i);
            nf_link_far_poll(&far, now);
        }
        uint64_t until =
            now + far.deadline_ns + model->latency_ns + (uint64_t)burst * model->line_ns + 10;
        for (int i = 0; i < burst;) {
            if (nf_link_get(&near, &channel, data, &length))
                i++;
            else if (now++ > until)
                wrong("an entry waits too long", (uint64_t)burst, (uint64_t)i);
            nf_dma_model_run(model, now);
            nf_link_far_poll(&far, now);
        }
        /* Let credits come. */
        for (uint64_t end = now + 100000; now < end; now += 100) {
            nf_dma_model_run(model, now);
            nf_link_far_poll(&far, now);
        }
    }
    free_model(model);
    munmap(host, bytes);
    munmap(own, bytes);
}

/* What went up and was freed counts as done only when its answers are down, in whatever order the
 * engine moves things.
 */
static void round_trips(uint64_t entries)
{
    size_t bytes = nf_link_bytes(32, 128, NF_LINK_LINES);
    void *memories[4];
    for (int i = 0; i < 4; i++)
        memories[i] = memory(bytes);
    struct nf_dma_model *model = new_model();
    struct nf_link near_up, near_down;
    struct nf_link_far up, down;
    nf_link_attach(&near_up, memories[0], 32, 128, NF_LINK_LINES, true);
    nf_link_attach(&near_down, memories[1], 32, 128, NF_LINK_LINES, false);
    nf_link_far_attach(&up, memories[2], memories[0], 32, 128, false, &model->dma);
    nf_link_far_attach(&down, memories[3], memories[1], 32, 128, true, &model->dma);
    up.owed = 0;
    struct nf_link_done done = {0};
    uint64_t sent = 0, answered = 0, now = 0, idle = 0;
    uint8_t data[MOST], channel;
    uint32_t length;
    while (nf_link_far_done(&done, &up, &down) < entries) {
        now += 1 + below(30);
        nf_dma_model_run(model, now);
        nf_link_far_poll(&up, now);
        nf_link_far_poll(&down, now);
        uint64_t before = done.entries;
        if (sent < entries && below(3) == 0) {
            fill(data, sent, length_of(sent, 64));
            sent += nf_link_far_put(&up, 0, data, length_of(sent, 64), now);
        }
        struct nf_link_head head;
        const uint8_t *entry =
            below(4) && nf_link_reserve(&near_down) ? nf_link_take(&near_up, &head) : NULL;
        if (entry) {
            nf_link_gather(&near_up, entry, head.length, data);
            nf_link_put(&near_down, 0, data, head.length);
            nf_link_release(&near_up);
        }
        while (nf_link_far_get(&down, &channel, data, &length))
            answered++;
        if (nf_link_far_done(&done, &up, &down) > answered)
            wrong("done before its answer came", done.entries, answered);
        idle = done.entries > before ? 0 : idle + 1;
        if (idle > 100000)
            wrong("nothing is ever done", done.entries, sent);
    }
    free_model(model);
    for (int i = 0; i < 4; i++)
        munmap(memories[i], bytes);
}

/* ---- Processes that are killed
 * ------------------------------------------------------------------------------- */

/* Entries that the consumer takes at a time. */
#define HELD 3

/* What the consumer tells whoever outlives it: entries it has handled, and how many were lost
 * before it. */
struct told {
    uint64_t handled, lost, last;
};

static void consume(void *shared, struct told *told, uint64_t entries)
{
    struct nf_link link;
    nf_link_attach(&link, shared, 64, 128, NF_LINK_PLAIN, true);
    told->lost += link.lost;
    while (told->last < entries) {
        struct nf_link_head heads[HELD];
        uint8_t *held[HELD];
        uint32_t count = 0;
        while (count < HELD && (held[count] = nf_link_take(&link, &heads[count])))
            count++;
        /* Now and then it dies by itself while it holds some. */
        bool ends = count && below(3000) == 0;
        for (uint32_t i = 0; i < count; i++) {
            if (ends && below(count) == 0)
                raise(SIGKILL);
            uint64_t number =
                check(held[i] + 8, heads[i].length, heads[i].channel, nf_link_room(&link));
            if (number <= told->last)
                wrong("an entry came twice", number, told->last);
            told->last = number;
            told->handled++;
            if (ends && below(count) == 0)
                raise(SIGKILL);
            nf_link_release(&link);
        }
        if (!count)
            sched_yield();
    }
    _exit(0);
}

static void killed(uint64_t entries)
{
    void *shared = memory(nf_link_bytes(64, 128, NF_LINK_PLAIN));
    struct told *told = memory(sizeof(*told));
    struct nf_link link;
    nf_link_attach(&link, shared, 64, 128, NF_LINK_PLAIN, false);
    uint64_t number = 0, deaths = 0;
    bool over = false;
    while (!over) {
        pid_t child = fork();
        if (child == 0) {
            state ^= deaths << 20;
            consume(shared, told, entries);
        }
        uint64_t stop = number + 1 + below(entries / 20);
        int status = 0;
        bool ended = false;
        while (number < entries && number < stop && !ended)
            if (put(&link, number + 1))
                number++;
            else if (!(ended = waitpid(child, &status, WNOHANG) == child))
                sched_yield();
        if (number < entries)
            kill(child, SIGKILL);
        if (!ended)
            waitpid(child, &status, 0);
        deaths += !WIFEXITED(status);
        over = WIFEXITED(status);
        if (over && WEXITSTATUS(status) != 0)
            wrong("the consumer says so", (uint64_t)status, 0);
    }
    /* Some of those that a dead consumer held may have been handled before. */
    uint64_t both = told->handled + told->lost - entries;
    if (told->handled > entries || told->lost > HELD * deaths || both > HELD * deaths ||
        told->last != entries)
        wrong("lost more than was in flight", told->lost, deaths);
    printf("killed %llu times: %llu entries, %llu lost in flight\n", (unsigned long long)deaths,
           (unsigned long long)entries, (unsigned long long)told->lost);
}

int main(int argc, char **argv)
{
    uint64_t seed = argc > 1 ? strtoull(argv[1], NULL, 10) : 1,
             rounds = argc > 2 ? strtoull(argv[2], NULL, 10) : 20;
    setvbuf(stdout, NULL, _IOLBF, 0);
    for (uint64_t round = 0; round < rounds; round++) {
        state = (seed * 1000003 + round) * 0x9e3779b97f4a7c15u | 1;
        across(true, false, 3000);
        across(false, false, 3000);
        across(true, true, 3000);
        across(false, true, 3000);
        round_trips(3000);
        for (int i = 0; i < 200; i++)
            words();
    }
    deadline();
    bytes_of_runs();
    threads(2, 64, 200000);
    threads(1024, 72, 1000000);
    threads(64, 1024, 200000);
    killed(200000);
    printf("every entry once and in order: %llu rounds\n", (unsigned long long)rounds);
    return 0;
}
