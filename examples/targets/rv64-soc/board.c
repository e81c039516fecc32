/* SPDX-License-Identifier: 0BSD
 *
 * board.c (rv64-soc) - the port layer of a small RISC-V SoC, as qemu's machine `virt` has it: a
 * 16550 UART carries the packet protocol, software interrupts of the CLINT wake harts, and a test
 * device ends the machine.
 */
#include "nf_board.h"

#include <stdlib.h>

/* The SoC's registers. */
#define FINISHER 0x100000ul
#define CLINT_MSIP 0x2000000ul
#define CLINT_MTIME 0x200bff8ul
#define UART 0x10000000ul
#define UART_DATA 0
#define UART_FIFO 2
#define UART_STATUS 5
#define STATUS_RECEIVED 0x01
#define STATUS_EMPTY 0x20
#define MTIME_HZ 10000000

#define REGISTER(type, address) (*(volatile type *)(address))

unsigned char board_stacks[HARTS][STACK] __attribute__((section(".stacks"), aligned(16)));
unsigned char board_thread_local[HARTS][THREAD_LOCAL] __attribute__((aligned(16)));

static void (*run)(unsigned);
static unsigned started;
static unsigned finished;

/* ---- Bytes
 * ------------------------------------------------------------------------------------------------------
 */

int nf_board_read(void)
{
    while (!(REGISTER(uint8_t, UART + UART_STATUS) & STATUS_RECEIVED))
        ;
    return REGISTER(uint8_t, UART + UART_DATA);
}

void nf_board_write(const void *bytes, size_t size)
{
    const uint8_t *at = bytes;
    for (size_t i = 0; i < size; i++) {
        while (!(REGISTER(uint8_t, UART + UART_STATUS) & STATUS_EMPTY))
            ;
        REGISTER(uint8_t, UART + UART_DATA) = at[i];
    }
}

void nf_board_flush(void) {}

/* ---- Cores
 * ------------------------------------------------------------------------------------------------------
 */

/* Life of a hart but the first: crt0.S calls it. */
void board_hart(unsigned hart)
{
    /* The software interrupt ends wfi and is never taken: interrupts stay off. */
    __asm__ volatile("csrs mie, %0" ::"r"(8));
    while (!REGISTER(uint32_t, CLINT_MSIP + 4ul * hart))
        __asm__ volatile("wfi");
    REGISTER(uint32_t, CLINT_MSIP + 4ul * hart) = 0;
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    run(hart - 1);
    __atomic_fetch_add(&finished, 1, __ATOMIC_RELEASE);
}

bool nf_board_start(unsigned count, void (*core)(unsigned))
{
    if (count > HARTS - 1)
        return false;
    run = core;
    started = count;
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    for (unsigned hart = 1; hart <= count; hart++)
        REGISTER(uint32_t, CLINT_MSIP + 4ul * hart) = 1;
    return true;
}

void nf_board_join(void)
{
    while (__atomic_load_n(&finished, __ATOMIC_ACQUIRE) < started)
        nf_board_relax();
}

/* The hint `pause`, by its encoding: not every assembler knows it. */
void nf_board_relax(void) { __asm__ volatile(".word 0x0100000f" ::: "memory"); }

uint64_t nf_board_cycles(void) { return REGISTER(uint64_t, CLINT_MTIME); }

uint64_t nf_board_hz(void) { return MTIME_HZ; }

/* Ends the machine with main's status. */
void board_exit(int status)
{
    REGISTER(uint32_t, FINISHER) = status ? (uint32_t)status << 16 | 0x3333 : 0x5555;
    for (;;)
        ;
}

/* ---- What the C library asks for: its memory is taken by several harts
 * ------------------------------------------ */

struct __lock {
    unsigned owner;
    unsigned depth;
};
struct __lock __lock___libc_recursive_mutex;

static unsigned self(void)
{
    unsigned long hart;
    __asm__ volatile("csrr %0, mhartid" : "=r"(hart));
    return (unsigned)hart + 1;
}

void __retarget_lock_acquire_recursive(struct __lock *lock);
void __retarget_lock_acquire_recursive(struct __lock *lock)
{
    unsigned free = 0;
    if (__atomic_load_n(&lock->owner, __ATOMIC_RELAXED) != self())
        for (; !__atomic_compare_exchange_n(&lock->owner, &free, self(), false, __ATOMIC_ACQUIRE,
                                            __ATOMIC_RELAXED);
             free = 0)
            nf_board_relax();
    lock->depth++;
}

void __retarget_lock_release_recursive(struct __lock *lock);
void __retarget_lock_release_recursive(struct __lock *lock)
{
    if (--lock->depth == 0)
        __atomic_store_n(&lock->owner, 0, __ATOMIC_RELEASE);
}
