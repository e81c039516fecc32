//! The host's side of a target.

use nicforge_target::{Device, Target};

/// Names of a target's unit groups and memories on the host's side of its link.
#[derive(Clone, Debug, Default)]
pub struct HostSide {
    groups: Vec<String>,
    memories: Vec<String>,
}

impl HostSide {
    /// The host's side of a target.
    pub fn of(target: &Target) -> HostSide {
        let groups = target.units.iter().filter(|group| group.device == Device::Host);
        let memories = target.memories.iter().filter(|memory| memory.device == Device::Host);
        HostSide {
            groups: groups.map(|group| group.name.clone()).collect(),
            memories: memories.map(|memory| memory.name.clone()).collect(),
        }
    }

    /// True if a unit group is there.
    pub fn has_units(&self, group: &str) -> bool {
        self.groups.iter().any(|name| name == group)
    }

    /// True if a memory is there.
    pub fn has_memory(&self, memory: &str) -> bool {
        self.memories.iter().any(|name| name == memory)
    }
}
