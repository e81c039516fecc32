//! What handlers ask of the engine: the other half of `runtime/spin/native/native.c`.

/// What a handler asks for; as `runtime/spin/native/native.c` writes it.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct Request {
    pub kind: u32,
    pub words: [u32; 6],
    pub pc: u32,
    pub answer: u32,
}

pub const COMMAND: u32 = 1;
pub const COMMAND_WAIT: u32 = 2;
pub const COMMAND_DONE: u32 = 3;
pub const COPY: u32 = 4;
pub const COPY_DONE: u32 = 5;
pub const PAUSE: u32 = 6;
pub const PRINT: u32 = 7;
pub const TERMINATE: u32 = 8;
pub const CYCLES: u32 = 9;
