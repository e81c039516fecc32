/* SPDX-License-Identifier: 0BSD
 *
 * nf_process.c (threads) - the port layer of a process: standard input and output, and a thread for
 * every core.
 */
#define _GNU_SOURCE
#include "nf_board.h"

#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <time.h>

#define MOST_CORES 1024

static pthread_t threads[MOST_CORES];
static unsigned started;
static void (*run)(unsigned);

int nf_board_read(void) { return getchar_unlocked(); }

void nf_board_write(const void *bytes, size_t size) { fwrite(bytes, 1, size, stdout); }

void nf_board_flush(void) { fflush(stdout); }

static void *core(void *number)
{
    run((unsigned)(uintptr_t)number);
    return NULL;
}

bool nf_board_start(unsigned count, void (*function)(unsigned))
{
    pthread_attr_t small;
    run = function;
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, 1 << 20);
    while (started < count && started < MOST_CORES) {
        if (pthread_create(&threads[started], &small, core, (void *)(uintptr_t)started))
            break;
        started++;
    }
    pthread_attr_destroy(&small);
    return started == count;
}

void nf_board_join(void)
{
    for (unsigned i = 0; i < started; i++)
        pthread_join(threads[i], NULL);
}

void nf_board_relax(void) { sched_yield(); }

/* Time of the thread: engines are many more than CPUs. */
uint64_t nf_board_cycles(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

uint64_t nf_board_hz(void) { return 1000000000; }
