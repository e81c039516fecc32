//! Where in the source an instruction comes from, as the image's debugging information says; read
//! by binutils' `addr2line`, which comes with the compiler of handlers. Each address is looked up
//! once, and only when something is to be reported.

use std::collections::HashMap;
use std::process::{Command, Stdio};
use std::sync::Arc;

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

    /// `file.c:12` of an address; nothing if the image does not say, or nobody can read it.
    pub fn at(&mut self, pc: u32) -> Option<String> {
        let elf = &self.elf;
        self.found.entry(pc).or_insert_with(|| look_up(elf, pc)).clone()
    }

    /// Adds the line to where a fault says that it happened.
    pub fn explain(&mut self, fault: &mut Fault) {
        let Some(line) = self.at(fault.pc) else { return };
        fault.symbol = Some(match fault.symbol.take() {
            Some(symbol) => format!("{symbol}, {line}"),
            None => line,
        });
    }
}

fn look_up(elf: &[u8], pc: u32) -> Option<String> {
    if elf.is_empty() {
        return None;
    }
    let folder = Folder::new("lines").ok()?;
    let file = folder.path().join("image");
    std::fs::write(&file, elf).ok()?;
    let mut tool = Command::new(TOOL);
    tool.arg("-e").arg(&file).arg(format!("{pc:#x}")).stdin(Stdio::null()).env("LC_ALL", "C");
    let ran = tool.output().ok().filter(|ran| ran.status.success())?;
    let text = String::from_utf8_lossy(&ran.stdout);
    // `??:0`, `file.c:?`, or `file.c:12 (discriminator 3)`.
    let line = text.lines().next()?.split(" (discriminator").next()?;
    (!line.contains('?') && !line.ends_with(":0")).then(|| line.to_string())
}
