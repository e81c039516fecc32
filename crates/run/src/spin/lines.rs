//! Where in the source an instruction comes from, as the image's debugging information says; read
//! by binutils' `addr2line`, which comes with the compiler of handlers. Each address is looked up
//! once, and only when something is to be reported.

use std::collections::HashMap;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;

use super::build::OURS;
use crate::temp::Folder;
use nicforge_spin::nic::Fault;

const TOOL: &str = "riscv64-unknown-elf-addr2line";

/// Lines of an image.
#[derive(Clone, Debug, Default)]
pub struct Lines {
    elf: Arc<[u8]>,
    found: HashMap<u32, Option<String>>,
}

impl Lines {
    /// Of an image's file.
    pub fn new(elf: &[u8]) -> Lines {
        Lines { elf: elf.into(), found: HashMap::new() }
    }

    /// `file.c:12` of an address, in the user's code where it came from there; nothing if the image
    /// does not say, or nobody can read it.
    pub fn at(&mut self, pc: u32) -> Option<String> {
        let elf = &self.elf;
        self.found.entry(pc).or_insert_with(|| look_up(elf, pc)).clone()
    }

    /// Adds the line to a fault.
    pub fn explain(&mut self, fault: &mut Fault) {
        fault.line = self.at(fault.pc);
    }
}

/// The innermost place in a file of the user's: functions of our headers are inlined into handlers,
/// and what fails there was asked for by the handler's line.
fn look_up(elf: &[u8], pc: u32) -> Option<String> {
    if elf.is_empty() {
        return None;
    }
    let folder = Folder::new("lines").ok()?;
    let file = folder.path().join("image");
    std::fs::write(&file, elf).ok()?;
    let mut tool = Command::new(TOOL);
    tool.arg("-i").arg("-e").arg(&file).arg(format!("{pc:#x}"));
    tool.stdin(Stdio::null()).env("LC_ALL", "C");
    let ran = tool.output().ok().filter(|ran| ran.status.success())?;
    innermost(&String::from_utf8_lossy(&ran.stdout))
}

/// Of frames, a line each and the innermost first: the first one that is in the user's code, or
/// the first one.
fn innermost(frames: &str) -> Option<String> {
    // `??:0`, `file.c:?`, or `file.c:12 (discriminator 3)`.
    let frames = frames.lines().filter_map(|frame| frame.split(" (discriminator").next());
    let frames: Vec<&str> =
        frames.filter(|frame| !frame.contains('?') && !frame.ends_with(":0")).collect();
    let users = frames.iter().find(|frame| !Path::new(frame).starts_with(OURS));
    let frame = users.or(frames.first())?;
    let here = std::env::current_dir().ok();
    let short = here.and_then(|here| Path::new(frame).strip_prefix(here).ok().map(Path::to_owned));
    Some(short.map_or_else(|| frame.to_string(), |short| short.display().to_string()))
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_header_of_ours_is_not_where_a_handler_fails() {
        let frames = "/nicforge/include/pspin.h:107\n/w/my.h:8 (discriminator 3)\n/w/x.c:9\n";
        assert_eq!(super::innermost(frames).as_deref(), Some("/w/my.h:8"));
        let ours = "/nicforge/image/runtime.c:7\n";
        assert_eq!(super::innermost(ours).as_deref(), Some("/nicforge/image/runtime.c:7"));
        assert_eq!(super::innermost("??:0\n"), None);
    }
}
