// Atomic operations, locks that spin, and counters. Every atomic is also a barrier for the
// compiler; the cores keep the order of their own accesses, so no other barrier is needed.
#pragma once

#include <hal/pulp.h>

#include <assert.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

#include "nf_spin_port.h"
#include "pspin_rt.h"
#include "spin_conf.h"

#define MEM_ALIGNMENT 4
#define ALIGN_UP(NUM, ALIGN) (((uint32_t)(NUM) + ((ALIGN) - 1)) & ~((uint32_t)(ALIGN) - 1))
#define DMA_MAX_XFER_SIZE 32768
#define DMA_NULL 0
#define MAX_COUNTERS 16

typedef uint32_t dma_t;
typedef volatile uint32_t futex_t;

struct perf_counter {
    uint32_t sum;
    uint32_t count;
};

// What the host reads and writes in the NIC's memory: answers to requests, by HPU, and counters.
struct host_data {
    uint64_t flag[CORE_COUNT];
    struct perf_counter counters[MAX_COUNTERS];
};

extern volatile struct host_data __host_data;

#ifndef NO_PULP

static inline void asm_mem_fence(void) { __asm__ volatile("" ::: "memory"); }

// Waits about so many cycles; four or fewer are none.
static inline void rt_time_wait_cycles(const unsigned cycles)
{
    for (unsigned turns = cycles > 4 ? cycles / 4 : 0; turns > 0; turns--)
        __asm__ volatile("nop");
    nf_spin_pause();
}

#ifdef __riscv

#define NF_SPIN_AMO(name, type, instruction)                                                       \
    static inline type name(volatile type *const addr, const type value)                           \
    {                                                                                              \
        type old;                                                                                  \
        __asm__ volatile(instruction " %0, %2, (%1)"                                               \
                         : "=r"(old)                                                               \
                         : "r"(addr), "r"(value)                                                   \
                         : "memory");                                                              \
        return old;                                                                                \
    }
NF_SPIN_AMO(amo_swap, uint32_t, "amoswap.w")
NF_SPIN_AMO(amo_and, uint32_t, "amoand.w")
NF_SPIN_AMO(amo_or, uint32_t, "amoor.w")
NF_SPIN_AMO(amo_xor, uint32_t, "amoxor.w")
NF_SPIN_AMO(amo_maxu, uint32_t, "amomaxu.w")
NF_SPIN_AMO(amo_minu, uint32_t, "amominu.w")
NF_SPIN_AMO(amo_add, int32_t, "amoadd.w")
NF_SPIN_AMO(amo_max, int32_t, "amomax.w")
NF_SPIN_AMO(amo_min, int32_t, "amomin.w")
#undef NF_SPIN_AMO

static inline uint32_t load_reserved(volatile const uint32_t *const addr)
{
    uint32_t value;
    __asm__ volatile("lr.w %0, (%1)" : "=r"(value) : "r"(addr) : "memory");
    return value;
}

// 0: stored. Else the reservation was lost.
static inline unsigned store_conditional(volatile uint32_t *const addr, const uint32_t value)
{
    unsigned failed;
    __asm__ volatile("sc.w %0, %2, (%1)" : "=&r"(failed) : "r"(addr), "r"(value) : "memory");
    return failed;
}

// The core's cycle counter, which only the runtime may read.
static inline uint32_t cycles(void)
{
    uint32_t now;
    ecall_0(PSPIN_ECALL_CYCLES, now);
    return now;
}

#else

#define NF_SPIN_AMO(name, type, function)                                                          \
    static inline type name(volatile type *const addr, const type value)                           \
    {                                                                                              \
        return function(addr, value, __ATOMIC_SEQ_CST);                                            \
    }
NF_SPIN_AMO(amo_swap, uint32_t, __atomic_exchange_n)
NF_SPIN_AMO(amo_and, uint32_t, __atomic_fetch_and)
NF_SPIN_AMO(amo_or, uint32_t, __atomic_fetch_or)
NF_SPIN_AMO(amo_xor, uint32_t, __atomic_fetch_xor)
NF_SPIN_AMO(amo_add, int32_t, __atomic_fetch_add)
#undef NF_SPIN_AMO

#define NF_SPIN_CHOOSE(name, type, better)                                                         \
    static inline type name(volatile type *const addr, const type value)                           \
    {                                                                                              \
        type old = *addr;                                                                          \
        while (value better old &&                                                                 \
               !__atomic_compare_exchange_n(addr, &old, value, 0, __ATOMIC_SEQ_CST,                \
                                            __ATOMIC_SEQ_CST)) {                                   \
        }                                                                                          \
        return old;                                                                                \
    }
NF_SPIN_CHOOSE(amo_maxu, uint32_t, >)
NF_SPIN_CHOOSE(amo_minu, uint32_t, <)
NF_SPIN_CHOOSE(amo_max, int32_t, >)
NF_SPIN_CHOOSE(amo_min, int32_t, <)
#undef NF_SPIN_CHOOSE

// What each unit last reserved, and the value it saw there.
struct nf_spin_reservation {
    volatile const uint32_t *addr;
    uint32_t value;
};
extern struct nf_spin_reservation nf_spin_reserved[4 << 5];

static inline uint32_t load_reserved(volatile const uint32_t *const addr)
{
    struct nf_spin_reservation *mine = &nf_spin_reserved[nf_spin_core()];

    mine->addr = addr;
    return mine->value = __atomic_load_n(addr, __ATOMIC_SEQ_CST);
}

static inline unsigned store_conditional(volatile uint32_t *const addr, const uint32_t value)
{
    struct nf_spin_reservation *mine = &nf_spin_reserved[nf_spin_core()];
    bool held = mine->addr == addr;
    uint32_t seen = mine->value;

    mine->addr = 0;
    return !(held && __atomic_compare_exchange_n(addr, &seen, value, 0, __ATOMIC_SEQ_CST,
                                                 __ATOMIC_SEQ_CST));
}

static inline uint32_t cycles(void) { return nf_spin_cycles(); }

#endif

static inline void amo_store(volatile uint32_t *const addr, const uint32_t value)
{
    amo_swap(addr, value);
}

// 0: swapped. -1: another value is there. Else the store lost its reservation.
static inline int compare_and_swap(volatile uint32_t *const addr, const uint32_t old,
                                   const uint32_t value)
{
    if (load_reserved(addr) != old)
        return -1;
    return (int)store_conditional(addr, value);
}

static inline void push_counter(volatile struct perf_counter *c, uint32_t dur)
{
    amo_add((volatile int32_t *)&c->count, 1);
    amo_add((volatile int32_t *)&c->sum, (int32_t)dur);
}

static inline void futex_init(futex_t *futex) { amo_store(futex, 0); }

static inline void futex_unlock(futex_t *futex) { amo_store(futex, 0); }

// 1: taken. 0: somebody has it.
static inline int futex_try_lock(futex_t *futex) { return amo_or(futex, 1) == 0; }

static inline int futex_lock(futex_t *futex)
{
    while (!futex_try_lock(futex))
        nf_spin_pause();
    return 1;
}

// As futex_lock, and leaves the lock alone for 32 cycles after each attempt.
static inline int futex_lock_s(futex_t *futex)
{
    while (!futex_try_lock(futex))
        rt_time_wait_cycles(32);
    return 1;
}

#endif
