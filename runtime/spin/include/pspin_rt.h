// Numbers of the core's control registers, calls into the runtime, and where a core finds out which
// one it is.
#pragma once

#include <hal/pulp.h>

#include <assert.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

#define ECALL_PSPIN_HANDLER_EXIT 0xa
// Call into the runtime: the core's cycle counter.
#define PSPIN_ECALL_CYCLES 0x1

#define PAGE_SIZE 4096

#define PULP_CSR_MSTATUS 0x300
#define PULP_CSR_MTVEC 0x305
#define PULP_CSR_MCOUNTINHIBIT 0x320
#define PULP_CSR_MEPC 0x341
#define PULP_CSR_MCAUSE 0x342
#define PULP_CSR_MTVAL 0x343
#define PULP_CSR_PMPCFG0 0x3a0
#define PULP_CSR_PMPCFG1 0x3a1
#define PULP_CSR_PMPCFG2 0x3a2
#define PULP_CSR_PMPCFG3 0x3a3
#define PULP_CSR_PMPADDR0 0x3b0
#define PULP_CSR_PMPADDR1 0x3b1
#define PULP_CSR_PMPADDR2 0x3b2
#define PULP_CSR_PMPADDR3 0x3b3
#define PULP_CSR_PMPADDR4 0x3b4
#define PULP_CSR_PMPADDR5 0x3b5
#define PULP_CSR_PMPADDR6 0x3b6
#define PULP_CSR_PMPADDR7 0x3b7
#define PULP_CSR_PMPADDR8 0x3b8
#define PULP_CSR_PMPADDR9 0x3b9
#define PULP_CSR_PMPADDR10 0x3ba
#define PULP_CSR_PMPADDR11 0x3bb
#define PULP_CSR_PMPADDR12 0x3bc
#define PULP_CSR_PMPADDR13 0x3bd
#define PULP_CSR_PMPADDR14 0x3be
#define PULP_CSR_PMPADDR15 0x3bf
#define PULP_CSR_PRIVLV 0xc10
#define PULP_CSR_MHARTID 0xf14

#ifdef __riscv

// A call into the runtime, which is in machine mode: number in a7, arguments in a0 to a6, the
// result in a0. Registers that a function may change are changed.
#define ecall(num, a0v, a1v, a2v, a3v, a4v, a5v, a6v, ret)                                         \
    do {                                                                                           \
        register uint32_t nf_a7 __asm__("a7") = (uint32_t)(num);                                   \
        register uint32_t nf_a0 __asm__("a0") = (uint32_t)(a0v);                                   \
        register uint32_t nf_a1 __asm__("a1") = (uint32_t)(a1v);                                   \
        register uint32_t nf_a2 __asm__("a2") = (uint32_t)(a2v);                                   \
        register uint32_t nf_a3 __asm__("a3") = (uint32_t)(a3v);                                   \
        register uint32_t nf_a4 __asm__("a4") = (uint32_t)(a4v);                                   \
        register uint32_t nf_a5 __asm__("a5") = (uint32_t)(a5v);                                   \
        register uint32_t nf_a6 __asm__("a6") = (uint32_t)(a6v);                                   \
        __asm__ volatile("ecall"                                                                   \
                         : "+r"(nf_a0), "+r"(nf_a1), "+r"(nf_a2), "+r"(nf_a3), "+r"(nf_a4),        \
                           "+r"(nf_a5), "+r"(nf_a6), "+r"(nf_a7)                                   \
                         :                                                                         \
                         : "memory");                                                              \
        (ret) = nf_a0;                                                                             \
    } while (0)
#define ecall_1(num, a0v, ret) ecall(num, a0v, 0, 0, 0, 0, 0, 0, ret)
#define ecall_0(num, ret) ecall(num, 0, 0, 0, 0, 0, 0, 0, ret)

#ifndef NO_PULP
// Machine mode only: the register is hidden from handlers.
static inline uint32_t nf_spin_hartid(void)
{
    uint32_t id;
    __asm__ volatile("csrr %0, mhartid" : "=r"(id));
    return id;
}

static inline uint32_t rt_core_id(void) { return nf_spin_hartid() & 0x1f; }

static inline uint32_t rt_cluster_id(void) { return (nf_spin_hartid() >> 5) & 0x3f; }
#endif

#endif
