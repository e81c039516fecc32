//! The form of a program that compiler and kernel take.

use std::path::PathBuf;

use nicforge_codegen::XdpSource;

use super::object::takes;
use crate::compile::{CompileError, Mode, compile_form};

/// The mark of loops that the verifier does not walk trip by trip, from Linux 6.9 on.
const OPEN_LOOPS: &str = "NF_MAY_BREAK;";

/// C in one form or in several that mean the same.
pub trait Forms {
    /// All of them, the best one first.
    fn forms(&self) -> Vec<&str>;
}

impl Forms for str {
    fn forms(&self) -> Vec<&str> {
        vec![self]
    }
}

impl Forms for String {
    fn forms(&self) -> Vec<&str> {
        vec![self]
    }
}

impl Forms for XdpSource {
    fn forms(&self) -> Vec<&str> {
        std::iter::once(&self.plain).chain(&self.others).map(String::as_str).collect()
    }
}

/// Compiles C for the kernel's BPF virtual machine. Where there are several forms it is the first
/// one that the compiler has room for and this machine's kernel takes, if it can be asked; if it
/// takes none, the last that compiles, which asks least of it.
///
/// # Errors
/// What is wrong with the first form.
pub fn compile_bpf(
    name: &str,
    source: &(impl Forms + ?Sized),
    mode: Mode,
    includes: &[PathBuf],
) -> Result<Vec<u8>, CompileError> {
    let forms = source.forms();
    let mut last = None;
    for form in &forms {
        match compile_form(name, form, mode, includes) {
            Ok(object) if forms.len() == 1 || takes(&object) => return Ok(object),
            // Another form may do. What an old kernel does not know says nothing of the program.
            Ok(_) if last.is_some() && form.contains(OPEN_LOOPS) => {}
            Ok(object) => last = Some(Ok(object)),
            Err(error @ CompileError::Stack { .. }) if last.is_none() => last = Some(Err(error)),
            Err(error) if last.is_none() => return Err(error),
            Err(_) => {}
        }
    }
    last.unwrap_or_else(|| Err(CompileError::Source { messages: "there is no source".to_string() }))
}
