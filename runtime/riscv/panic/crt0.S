# Start of an image: a stack at the end of the core's memory, which comes filled.
    .section .start, "ax"
    .globl _start
_start:
    li      sp, 0x10000000 + NF_LOCAL_BYTES
    call    nf_core
1:  j       1b
