// Small macros that handlers use.
#pragma once

#include <stdio.h>

#include "nf_spin_port.h"

#define MIN(a, b) (((a) < (b)) ? (a) : (b))
#define MAX(a, b) (((a) > (b)) ? (a) : (b))
#define STRINGIFY(x) #x
#define DIV_CEIL(a, b) (((a) / (b)) + ((a) % (b) != 0))
#define FAST_DIV(a, log2_b) ((a) >> (log2_b))
#define FAST_MOD(a, b) ((a) & ((b) - 1))
#define AND(a, b) ((a) & ((b) - 1))
#define TERMINATE                                                                                  \
    {                                                                                              \
        nf_spin_terminate();                                                                       \
    }

#ifdef __riscv
#define read_csr(reg, val) __asm__ volatile("csrr %0, " STRINGIFY(reg) : "=r"(val));
#define write_csr(reg, val) __asm__ volatile("csrw " STRINGIFY(reg) ", %0" ::"r"(val));
#define clear_csr(reg, mask) __asm__ volatile("csrc " STRINGIFY(reg) ", %0" ::"r"(mask));
#define read_register(reg, val) __asm__ volatile("mv %0, " STRINGIFY(reg) : "=r"(val));
#define write_register(reg, val) __asm__ volatile("mv " STRINGIFY(reg) ", %0" ::"r"(val));
#define LABEL(name) __asm__ volatile(".global " STRINGIFY(name) "\n" STRINGIFY(name) ":");

// The runtime keeps the core's number in tp, which handlers leave alone.
static inline __attribute__((always_inline)) unsigned nf_spin_tp(void)
{
    unsigned id;
    read_register(tp, id);
    return id;
}
#else
#define LABEL(name)
static inline unsigned nf_spin_tp(void) { return nf_spin_core(); }
#endif

static inline __attribute__((always_inline)) unsigned user_core_id(void)
{
    return nf_spin_tp() & 0x1f;
}

static inline __attribute__((always_inline)) unsigned user_cluster_id(void)
{
    return (nf_spin_tp() >> 5) & 0x3f;
}

#ifdef CHECK_ASSERTS
#define ASSERT(condition)                                                                          \
    while (!(condition)) {                                                                         \
        printf("%s:%d: not true: %s\n", __FILE__, __LINE__, #condition);                           \
        TERMINATE                                                                                  \
    }
#else
#define ASSERT(condition)
#endif

#define SPIN_PRINTF(format, ...)                                                                   \
    printf("%s:%s:%d: " format, __FILE__, __func__, __LINE__, ##__VA_ARGS__)
#ifdef LOG
#define DEBUG_PRINT(...) SPIN_PRINTF(__VA_ARGS__)
#else
#define DEBUG_PRINT(...)
#endif

#ifdef ENABLE_TRACING
#define TRACING_DUMMY_INSTR() __asm__ volatile("nop")
#else
#define TRACING_DUMMY_INSTR()
#endif
