// What handlers ask of the NIC, as the machine at hand takes it: registers on a RISC-V unit, calls
// into the engine where handlers were compiled for this computer (the native engine). The only
// header here that tells the two apart, with `pspin.h`'s atomics.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "hwsched.h"

// Kinds of commands, the value of CMD_INFO. The lowest bit of a DMA says whether its end is to be
// told.
#define NF_SPIN_HOST_DMA 0
#define NF_SPIN_SEND 2
#define NF_SPIN_HOST_WRITE 4

#ifdef __riscv

// The copy engine inside the NIC.
#define NF_SPIN_DMA 0x1B204400

// Gives the command to the NIC and its number. Waits while four are on their way.
static inline uint32_t nf_spin_command(uint32_t kind, uint32_t w0, uint32_t w1, uint32_t w2,
                                       uint32_t w3, uint32_t w4)
{
    MMIO_WRITE(CMD_INFO, kind);
    MMIO_WRITE(CMD_WORD0, w0);
    MMIO_WRITE(CMD_WORD1, w1);
    MMIO_WRITE(CMD_WORD2, w2);
    MMIO_WRITE(CMD_WORD3, w3);
    MMIO_WRITE(CMD_WORD4, w4);
    return MMIO_READ(CMD_ISSUE);
}

static inline void nf_spin_command_wait(uint32_t command) { MMIO_WRITE(CMD_WAIT, command); }

static inline bool nf_spin_command_done(uint32_t command)
{
    MMIO_WRITE(CMD_TEST, command);
    return MMIO_READ(CMD_TEST) == 1;
}

// Starts a copy and gives its number; numbers count up.
static inline uint32_t nf_spin_copy(const void *from, void *to, uint32_t size)
{
    MMIO_WRITE(NF_SPIN_DMA + 0, (uint32_t)from);
    MMIO_WRITE(NF_SPIN_DMA + 4, 0);
    MMIO_WRITE(NF_SPIN_DMA + 8, (uint32_t)to);
    MMIO_WRITE(NF_SPIN_DMA + 12, 0);
    MMIO_WRITE(NF_SPIN_DMA + 16, size);
    return MMIO_READ(NF_SPIN_DMA + 24);
}

static inline bool nf_spin_copy_done(uint32_t copy)
{
    return (int32_t)(MMIO_READ(NF_SPIN_DMA + 32) - copy) >= 0;
}

static inline void nf_spin_terminate(void) { MMIO_WRITE(0x1B200000, 1); }

static inline void nf_spin_pause(void) {}

#else

// The unit that runs, as RISC-V handlers find it in tp: cluster << 5 | core.
extern volatile uint32_t nf_spin_self;

uint32_t nf_spin_command(uint32_t kind, uint32_t w0, uint32_t w1, uint32_t w2, uint32_t w3,
                         uint32_t w4);
void nf_spin_command_wait(uint32_t command);
bool nf_spin_command_done(uint32_t command);
uint32_t nf_spin_copy(const void *from, void *to, uint32_t size);
bool nf_spin_copy_done(uint32_t copy);
void nf_spin_terminate(void);
uint32_t nf_spin_cycles(void);
static inline uint32_t nf_spin_core(void) { return nf_spin_self; }
// In a loop that waits for something: others may run meanwhile.
void nf_spin_pause(void);

#endif
