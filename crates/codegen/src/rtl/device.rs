//! What the device has: a U280, as DS963 says.

/// Memory for tables: block RAM and UltraRAM (9 MB and 33.75 MB), less a megabyte
/// for packets.
pub const MEMORY_BITS: u64 = 41 * 8 * 1024 * 1024;
/// Block memories of 36 Kbit.
pub const BLOCKS: usize = 2016;
/// LUTs of six inputs.
pub const LUTS: u64 = 1_303_680;

/// Kibibytes that hold so many bits.
pub fn kib(bits: u64) -> u64 {
    bits.div_ceil(8192)
}
