//! What a running handler may touch.
//!
//! Hardware protects by pages of 4 KiB and not the stacks. Here windows are exact, unless the
//! hardware's faults are asked for; the check is made from the task, whatever the program writes
//! into protection registers.

use std::ops::Range;

use super::memories::{Place, Space};
use crate::machine::map;

/// The windows of one task; ranges are offsets in the memory they are of.
#[derive(Clone, Debug, Default)]
pub(crate) struct Windows {
    pub cluster: usize,
    /// Of the own cluster's memory.
    pub stack: Range<u32>,
    /// Stacks of all cores.
    pub stacks: Range<u32>,
    pub packet_copy: Range<u32>,
    /// Of every cluster's memory.
    pub scratchpad: Range<u32>,
    pub packet: Range<u32>,
    /// The context's handler memory.
    pub handler: Range<u32>,
    /// Stacks have no guard.
    pub open_stacks: bool,
}

fn inside(range: &Range<u32>, at: u32, size: u32) -> bool {
    at >= range.start && at - range.start < range.end - range.start && size <= range.end - at
}

/// Whole pages around a range, as hardware protects.
pub(crate) fn pages(range: Range<u32>) -> Range<u32> {
    range.start & !0xfff..range.end.next_multiple_of(0x1000)
}

impl Windows {
    /// Checks that an access is allowed; else why not.
    #[inline]
    pub fn check(
        &self,
        space: &Space,
        place: Place,
        size: u32,
        write: bool,
    ) -> Result<(), &'static str> {
        match place {
            Place::L1 { cluster, at } if cluster == self.cluster => {
                if inside(&self.stack, at, size)
                    || inside(&self.packet_copy, at, size)
                    || inside(&self.scratchpad, at, size)
                {
                    return Ok(());
                }
                self.check_cluster(space, at, size)
            }
            Place::L1 { at, .. } if inside(&self.scratchpad, at, size) => Ok(()),
            Place::L1 { .. } => Err("of another cluster's memory handlers see the scratchpad only"),
            Place::Packet { at } if inside(&self.packet, at, size) => Ok(()),
            Place::Packet { .. } => Err("not this handler's packet"),
            Place::Handler { at } => {
                let shared = space.shared_start..space.shared_end;
                if inside(&self.handler, at, size) || inside(&shared, at, size) {
                    return Ok(());
                }
                if !inside(&(0..space.image_end), at, size) {
                    return Err(
                        "handler memory that belongs neither to the image nor to the context",
                    );
                }
                let constant = |range: &Range<u32>| at < range.end && at + size > range.start;
                if write && space.constants.iter().any(constant) {
                    return Err("constants of the image cannot be written");
                }
                Ok(())
            }
            Place::Program { .. } if write => Err("program memory cannot be written"),
            Place::Program { .. } => Ok(()),
        }
    }

    /// The rest of the own cluster's memory: data of the runtime and of the image, and what stacks
    /// run into.
    #[cold]
    fn check_cluster(&self, space: &Space, at: u32, size: u32) -> Result<(), &'static str> {
        let runtime = self.stacks.end..map::L1_PACKETS;
        let data = |range: &Range<u32>| inside(range, at, size);
        if inside(&runtime, at, size) || space.cluster_data.iter().any(data) {
            return Ok(());
        }
        if at < self.stacks.end {
            if self.open_stacks {
                return Ok(());
            }
            if at < self.stack.start && at >= self.stack.start.saturating_sub(map::STACK) {
                return Err(OVERFLOW);
            }
            return Err("another core's stack");
        }
        Err("of the cluster's memory handlers see their stack, packet and scratchpad only")
    }
}

/// What stacks that run over are told.
pub(crate) const OVERFLOW: &str = "below the handler's stack of 1 KiB: it uses more than there is";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_hold_what_lies_in_them_whole() {
        let range = 0x400..0x800;
        assert!(inside(&range, 0x400, 4) && inside(&range, 0x7fc, 4));
        assert!(
            !inside(&range, 0x3fc, 4) && !inside(&range, 0x7fe, 4) && !inside(&range, 0x800, 4)
        );
        assert!(!inside(&(0..0), 0, 1));
        assert!(!inside(&range, 0x7ff, u32::MAX));
        assert_eq!(pages(0x1040..0x1080), 0x1000..0x2000);
    }
}
