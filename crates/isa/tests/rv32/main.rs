//! The RV32 core against other people's: qemu and objdump.

mod cases;
mod garbage;
mod objdump;
mod programs;
mod qemu;
