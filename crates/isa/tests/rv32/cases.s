# What each instruction gives for chosen operands, in the manner of riscv-tests: the number of the case is in gp when it fails
# and becomes the exit status; 0 is success. Expected values are from the manual's tables and from arithmetic by hand.

.option norelax # gp counts cases here and points nowhere

.macro check number, register, expected
    li gp, \number
    li t6, \expected
    bne \register, t6, fail
.endm

.macro binary number, name, a, b, expected
    li a0, \a
    li a1, \b
    \name a2, a0, a1
    check \number, a2, \expected
    # The destination may be a source.
    \name a0, a0, a1
    check \number, a0, \expected
.endm

.globl _start
_start:
    # Division: by zero, and the one quotient that does not fit.
    binary 1, div, 20, 0, -1
    binary 2, divu, 20, 0, -1
    binary 3, rem, 20, 0, 20
    binary 4, remu, 20, 0, 20
    binary 5, div, -0x80000000, -1, -0x80000000
    binary 6, rem, -0x80000000, -1, 0
    binary 7, div, -20, 6, -3
    binary 8, rem, -20, 6, -2
    binary 9, rem, 20, -6, 2
    binary 10, divu, -20, 6, 715827879
    binary 11, remu, -20, 6, 2

    # High halves.
    binary 12, mulh, -0x80000000, -0x80000000, 0x40000000
    binary 13, mulhu, 0xffffffff, 0xffffffff, 0xfffffffe
    binary 14, mulhsu, -1, 0xffffffff, -1
    binary 15, mulhsu, 0x7fffffff, 0xffffffff, 0x7ffffffe
    binary 16, mul, 0x12345679, 0x10001, 0x68ad5679
    binary 17, mulh, -1, 1, -1

    # Shifts take five bits of the amount.
    binary 18, sll, 1, 33, 2
    binary 19, srl, 0x80000000, 63, 1
    binary 20, sra, 0x80000000, 63, -1
    binary 21, slt, -1, 0, 1
    binary 22, sltu, -1, 0, 0
    binary 23, sub, 0, 0x80000000, 0x80000000

    li a0, -1
    sltiu a1, a0, -1
    check 24, a1, 0
    li a0, 5
    sltiu a1, a0, -1
    check 25, a1, 1
    slti a1, a0, -1
    check 26, a1, 0

    # Writes of x0 are lost.
    li a0, 7
    addi x0, a0, 1
    check 27, x0, 0
    c.lwsp a0, 0(sp)
    lw x0, 0(sp)
    check 28, x0, 0

    # Extension of loads, at any address.
    la s0, bytes
    lb a0, 1(s0)
    check 29, a0, -127
    lbu a0, 1(s0)
    check 30, a0, 0x81
    lh a0, 1(s0)
    check 31, a0, -32127
    lhu a0, 1(s0)
    check 32, a0, 0x8281
    lw a0, 1(s0)
    check 33, a0, 0x84838281
    lw a0, 3(s0)
    check 34, a0, 0x86858483
    sh a0, 9(s0)
    lw a0, 8(s0)
    check 35, a0, 0x8b848388

    # Jumps link to what follows them, compressed or not; the lowest bit of a computed target is dropped.
    la a1, 1f
    .option push
    .option norvc
    jal a0, 1f
    .option pop
    j fail
1:  la a1, 2f
    addi a1, a1, 1
    .option push
    .option norvc
    jalr a2, 0(a1)
    .option pop
3:  j fail
2:  la a3, 3b
    sub a2, a2, a3
    check 36, a2, 0
    la a1, 4f
    c.jalr a1
5:  j fail
4:  la a3, 5b
    sub a2, ra, a3
    check 37, a2, 0
    # The register jumped through may be the one that links.
    la a1, 6f
    jalr a1, 0(a1)
7:  j fail
6:  la a3, 7b
    sub a2, a1, a3
    check 38, a2, 0

    # Atomics give what was there.
    la s0, word
    li a1, -5
    amoadd.w a0, a1, (s0)
    check 39, a0, 100
    lw a0, 0(s0)
    check 40, a0, 95
    amomin.w a0, a1, (s0)
    lw a0, 0(s0)
    check 41, a0, -5
    li a1, 3
    amominu.w a0, a1, (s0)
    check 42, a0, -5
    lw a0, 0(s0)
    check 43, a0, 3
    li a1, -1
    amomax.w.aqrl a0, a1, (s0)
    lw a0, 0(s0)
    check 44, a0, 3
    amomaxu.w a0, a1, (s0)
    lw a0, 0(s0)
    check 45, a0, -1
    li a1, 12
    amoswap.w a1, a1, (s0)
    check 46, a1, -1

    # A conditional store needs its own reservation, once.
    li a1, 77
    sc.w a0, a1, (s0)
    beqz a0, fail
    lr.w a0, (s0)
    check 47, a0, 12
    sc.w a0, a1, (s0)
    check 48, a0, 0
    sc.w a0, a1, (s0)
    beqz a0, fail
    lw a0, 0(s0)
    check 49, a0, 77

    # Compressed forms at the ends of their ranges.
    li s1, 1
    c.addi s1, -32
    check 50, s1, -31
    c.lui s1, 0xfffe0
    check 51, s1, -131072
    c.srai s1, 17
    check 52, s1, -1
    c.andi s1, 31
    check 53, s1, 31
    mv s2, sp
    c.addi16sp sp, -512
    sub s2, s2, sp
    check 54, s2, 512
    c.addi4spn s1, sp, 1020
    sub s1, s1, sp
    check 55, s1, 1020
    c.addi16sp sp, 496

    auipc a0, 1
here:
    la a1, here
    sub a0, a0, a1
    check 56, a0, 4092

    li a0, 0
    j exit
fail:
    mv a0, gp
exit:
    li a7, 93
    ecall

.data
bytes:
    .byte 0x80, 0x81, 0x82, 0x83, 0x84, 0x85, 0x86, 0x87, 0x88, 0x89, 0x8a, 0x8b
.balign 4
word:
    .word 100
