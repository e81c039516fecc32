/* SPDX-License-Identifier: 0BSD
 *
 * Start of every hart: a stack and thread-local memory of its own. Hart 0 clears memory and runs main; the others wait
 * in board_hart until hart 0 wakes them.
 */
    .section .text.init, "ax"
    .globl _start
_start:
    csrr a0, mhartid
    li t0, HARTS
    bgeu a0, t0, park
    .option push
    .option norelax
    la gp, __global_pointer$
    .option pop
    la sp, board_stacks
    li t0, STACK
    addi t1, a0, 1
    mul t1, t1, t0
    add sp, sp, t1
    la tp, board_thread_local
    li t0, THREAD_LOCAL
    mul t1, a0, t0
    add tp, tp, t1
    bnez a0, other
    la t0, __bss_start
    la t1, __bss_end
1:  bgeu t0, t1, 2f
    sd zero, 0(t0)
    addi t0, t0, 8
    j 1b
2:  call main
    call board_exit
other:
    call board_hart
park:
    wfi
    j park
