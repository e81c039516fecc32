//! What several crates need and none owns: random numbers and internet checksums.

pub mod checksum;
pub mod random;

pub use random::Random;
