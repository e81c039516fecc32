# Start of an image, its trap handler, and the loop in which a core waits for tasks.
#
# Every core enters at _start in machine mode with its number (cluster << 5 | core) in mhartid. Core 0 of each cluster clears what its
# cluster has of its own; core 0 of cluster 0 also clears .bss, calls the C library's and the image's initialisation and lets the
# others go. All then wait for tasks in user mode. The loop costs nine cycles for a handler that does nothing, as PsPIN's does.

#define HWSCHED 0x1B205000
#define STACKS 0x1B000000
#define CAUSE_ECALL_USER 8
#define ECALL_CYCLES 1

    .section .vectors, "ax"
    .org 0x80
    .globl _start
_start:
    csrr    tp, mhartid
    la      t0, rt_vec
    csrw    mtvec, t0
    # The cycle counter runs, and is the runtime's alone.
    csrw    mcountinhibit, zero

    # Core k has the k-th KiB of its cluster's memory as stack, and its first task finds it empty.
    andi    t0, tp, 0x1f
    addi    sp, t0, 1
    slli    sp, sp, 10
    li      t1, STACKS
    add     sp, sp, t1
    bnez    t0, wait_for_cluster
    j       cluster_init

    .section .text.runtime, "ax"
    .option norvc
    .balign 256
    .globl rt_vec
rt_vec:
    j       trap
    .option rvc

    .globl cluster_init
cluster_init:
    la      t0, _l1_preload_start
    la      t1, _l1_preload_end
1:  bgeu    t0, t1, 2f
    sw      zero, 0(t0)
    addi    t0, t0, 4
    j       1b
2:  srli    t0, tp, 5
    bnez    t0, cluster_ready
    la      t0, _bss_start
    la      t1, _bss_end
3:  bgeu    t0, t1, 4f
    sw      zero, 0(t0)
    addi    t0, t0, 4
    j       3b
4:  call    nf_spin_start
    # The others wait for this word, which is not in .bss.
    la      t0, started
    li      t1, 1
    sw      t1, 0(t0)

cluster_ready:
    la      t0, cluster_cleared
    li      t1, 1
    sw      t1, 0(t0)

wait_for_cluster:
    la      t0, cluster_cleared
1:  lw      t1, 0(t0)
    beqz    t1, 1b
    la      t0, started
2:  lw      t1, 0(t0)
    beqz    t1, 2b

# What a handler gets: hpu_descr holds one handler_args_t for each core. Then to user mode, with an empty stack. Also the way back from
# a handler that ended in a fault, so nothing it had in its hands is used.
    .globl hpu_entry
hpu_entry:
    csrr    tp, mhartid
    andi    t0, tp, 0x1f
    srli    t1, tp, 5
    addi    sp, t0, 1
    slli    sp, sp, 10
    li      t2, STACKS
    add     sp, sp, t2
    la      s1, hpu_descr
    slli    t2, t0, 4
    add     s1, s1, t2
    li      s0, HWSCHED
    addi    t2, s0, 8
    slli    t3, t1, 3
    add     t3, t3, t0
    sw      t2, 0(s1)
    sw      t3, 4(s1)
    sw      t1, 8(s1)
    sw      t0, 12(s1)
    li      t0, 0x1800
    csrc    mstatus, t0
    la      t0, hpu_run
    csrw    mepc, t0
    mret

    .globl hpu_run
    .balign 16
hpu_run:
    lw      t0, 0(s0)       # waits for a task
    mv      a0, s1
    jalr    t0
    lw      zero, 0x50(s0)  # the task is done
    j       hpu_run

# A fault, or a call into the runtime. A fault may be one of the stack, so nothing is stored before it is known to be a call.
    .globl int0_handler
int0_handler:
trap:
    csrw    mscratch, t0
    csrr    t0, mcause
    addi    t0, t0, -CAUSE_ECALL_USER
    bnez    t0, fault
    addi    t0, a7, -ECALL_CYCLES
    bnez    t0, fault
    # A call: all registers but the result's are given back, since more calls of this kind may come to be written in C.
    addi    sp, sp, -128
    sw      ra, 4(sp)
    sw      gp, 12(sp)
    sw      t1, 24(sp)
    sw      t2, 28(sp)
    sw      s0, 32(sp)
    sw      s1, 36(sp)
    sw      a1, 44(sp)
    sw      a2, 48(sp)
    sw      a3, 52(sp)
    sw      a4, 56(sp)
    sw      a5, 60(sp)
    sw      a6, 64(sp)
    sw      a7, 68(sp)
    sw      s2, 72(sp)
    sw      s3, 76(sp)
    sw      s4, 80(sp)
    sw      s5, 84(sp)
    sw      s6, 88(sp)
    sw      s7, 92(sp)
    sw      s8, 96(sp)
    sw      s9, 100(sp)
    sw      s10, 104(sp)
    sw      s11, 108(sp)
    sw      t3, 112(sp)
    sw      t4, 116(sp)
    sw      t5, 120(sp)
    sw      t6, 124(sp)
    csrr    a0, mcycle
    csrr    t0, mepc
    addi    t0, t0, 4
    csrw    mepc, t0
    csrr    t0, mscratch
    lw      ra, 4(sp)
    lw      gp, 12(sp)
    lw      t1, 24(sp)
    lw      t2, 28(sp)
    lw      s0, 32(sp)
    lw      s1, 36(sp)
    lw      a1, 44(sp)
    lw      a2, 48(sp)
    lw      a3, 52(sp)
    lw      a4, 56(sp)
    lw      a5, 60(sp)
    lw      a6, 64(sp)
    lw      a7, 68(sp)
    lw      s2, 72(sp)
    lw      s3, 76(sp)
    lw      s4, 80(sp)
    lw      s5, 84(sp)
    lw      s6, 88(sp)
    lw      s7, 92(sp)
    lw      s8, 96(sp)
    lw      s9, 100(sp)
    lw      s10, 104(sp)
    lw      s11, 108(sp)
    lw      t3, 112(sp)
    lw      t4, 116(sp)
    lw      t5, 120(sp)
    lw      t6, 124(sp)
    addi    sp, sp, 128
    mret

# The handler is at fault: the cause is told, the task ends, and the core goes on as at its start.
fault:
    csrr    t0, mcause
    li      t1, HWSCHED
    sw      t0, 0x54(t1)
    lw      zero, 0x50(t1)
    j       hpu_entry

    .section .data.started, "aw"
    .balign 4
started:
    .word   0

    .section .data_tiny_l1, "aw", @nobits
    .balign 4
    .globl hpu_descr
hpu_descr:
    .space  8 * 16
cluster_cleared:
    .space  4
