/* SPDX-License-Identifier: 0BSD
 *
 * nf_main.h (riscv, spin) - the handler of the one stage. See nf_port.h.
 */
#ifndef NF_RISCV_MAIN_H
#define NF_RISCV_MAIN_H

#include <handler.h>

#include "nf_event.h"

struct nf_worker *nf_worker_at[NF_WORKERS];
u32 nf_ring_at;
u32 nf_lock_words[NF_LOCKS + 1];

__attribute__((used)) static void nf_arrived(handler_args_t *args)
{
    u8 *frame = args->task->pkt_mem;
    u32 size = (u32)args->task->pkt_mem_size - (u32)sizeof(struct nf_arrival);
    struct nf_arrival arrival;
    memcpy(&arrival, frame + size, sizeof(arrival));
    struct nf_worker *w = nf_worker_at[arrival.worker];
    w->env.now = arrival.now;
    w->env.seed = arrival.seed;
    w->env.draws = 0;
    w->event = arrival.number;
    if (arrival.port == NF_FROM_HOST) {
        nf_run_event(w, NF_MESSAGE, frame);
        return;
    }
    u8 staged[NF_STAGED_BYTES + 1];
    struct nf_packet pkt = {.data = frame,
                            .end = frame + size,
                            .head = frame,
                            .tail = frame + size,
                            .staged = NF_STAGED_BYTES ? staged : NULL,
                            .in_port = arrival.port};
    struct nf_packet *params[2] = {&pkt, NULL};
    nf_run_event(w, NF_ENTRY, params);
}

/* Goes to the core's own stack in the scratchpad, which is larger than the runtime's. */
__attribute__((naked, used)) void nf_payload(handler_args_t *args)
{
    (void)args;
    __asm__ volatile("addi sp, sp, -16\n\t"
                     "sw ra, 12(sp)\n\t"
                     "sw s0, 8(sp)\n\t"
                     "mv s0, sp\n\t"
                     "lw t0, 12(a0)\n\t"
                     "li t1, %0\n\t"
                     "mul t0, t0, t1\n\t"
                     "li t1, %1\n\t"
                     "add sp, t0, t1\n\t"
                     "call nf_arrived\n\t"
                     "mv sp, s0\n\t"
                     "lw ra, 12(sp)\n\t"
                     "lw s0, 8(sp)\n\t"
                     "addi sp, sp, 16\n\t"
                     "ret" ::"i"(NF_CORE_BYTES),
                     "i"(0x1B014400 + NF_STACK_BYTES));
}

void init_handlers(handler_fn *hh, handler_fn *ph, handler_fn *th, void **handler_mem_ptr)
{
    (void)hh;
    (void)th;
    (void)handler_mem_ptr;
    *ph = nf_payload;
}

#endif
