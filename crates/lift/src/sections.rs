//! Sections of an object: what their programs are for.

use nicforge_isa::ebpf::context::{Layout, SKB, XDP};

/// True if a section has programs for XDP, or its name says nothing about what they are for.
pub fn is_xdp(section: &str) -> bool {
    section.starts_with("xdp") || matches!(section, "prog" | ".text")
}

/// True if a section has programs for tc.
pub fn is_tc(section: &str) -> bool {
    layout(section) == Some(SKB)
}

/// True if a section says that its programs are for XDP or tc.
pub fn is_taken(section: &str) -> bool {
    section.starts_with("xdp") || is_tc(section)
}

/// The context of programs that are lifted; none where another section's programs decide about
/// packets in another way.
pub fn layout(section: &str) -> Option<Layout> {
    let name = section.trim_start_matches('?');
    let decides_otherwise = ["lwt_", "cgroup_skb"].iter().any(|kind| name.starts_with(kind));
    match Layout::of(section) {
        Ok(SKB) if !decides_otherwise => Some(SKB),
        Ok(_) if is_xdp(section) => Some(XDP),
        _ => None,
    }
}
