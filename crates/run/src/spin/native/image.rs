//! Handlers for this computer, as a linked x32 file has them.

use nicforge_isa::object::riscv::Image;
use nicforge_spin::machine::map;

use super::memory::CODE;

/// Handlers for this computer: what the NIC loads, and code.
#[derive(Clone, Debug)]
pub struct NativeImage {
    /// Without code; with all symbols.
    pub image: Image,
    /// The file it was.
    pub elf: Vec<u8>,
    pub(super) code: Vec<u8>,
    pub(super) start: u32,
}

impl NativeImage {
    /// Parts a linked x32 file, which has been read, into data for the NIC and code.
    pub fn new(mut image: Image, elf: &[u8]) -> NativeImage {
        let is_code = |address: u32| (CODE..CODE + (16 << 20)).contains(&address);
        let mut code = Vec::new();
        for segment in image.segments.iter().filter(|segment| is_code(segment.address)) {
            let end = (segment.address - CODE) as usize + segment.bytes.len();
            code.resize(code.len().max(end), 0);
            code[end - segment.bytes.len()..end].copy_from_slice(&segment.bytes);
        }
        image.segments.retain(|segment| !is_code(segment.address));
        image.sections.retain(|section| !is_code(section.address));
        // The NIC wants images to start in program memory, which this one does not use.
        let start = std::mem::replace(&mut image.entry, map::PROGRAM);
        NativeImage { image, elf: elf.to_vec(), code, start }
    }
}
