//! A target's own tools: from generated files to an image, and to a run of it.

use std::path::Path;
use std::process::Command;

use nicforge_target::Toolchain;

use crate::compile::GCC_FLAGS;
use crate::dpdk::DpdkError;
use crate::{exec, tools};

/// Files of the runtime that every image links.
const RUNTIME: [&str; 2] = ["nf_threads.c", "nf_tables.c"];

/// Lines of a compiler's messages that are shown.
const SHOWN: usize = 8;

/// Puts the port layer beside the files in a folder and links the image `app`.
///
/// # Errors
/// A file cannot be copied, the compiler cannot be started, or it refuses the files.
pub fn link(toolchain: &Toolchain, dir: &Path, files: &[String]) -> Result<(), DpdkError> {
    let mut sources: Vec<String> = files.to_vec();
    sources.extend(RUNTIME.map(String::from));
    if let Some(board) = &toolchain.board {
        let io = |source| DpdkError::Io { path: board.clone(), source };
        for entry in std::fs::read_dir(board).map_err(io)? {
            let path = entry.map_err(io)?.path();
            let Some(name) = path.file_name().and_then(|name| name.to_str()) else { continue };
            if !path.is_file() {
                continue;
            }
            std::fs::copy(&path, dir.join(name)).map_err(io)?;
            if name.ends_with(".c") || name.ends_with(".S") {
                sources.push(name.to_string());
            }
        }
        sources[files.len() + RUNTIME.len()..].sort();
    } else {
        std::fs::write(dir.join(super::PROCESS.0), super::PROCESS.1)
            .map_err(|source| DpdkError::Io { path: dir.join(super::PROCESS.0), source })?;
        sources.push(super::PROCESS.0.to_string());
    }
    let mut compiler = Command::new(&toolchain.compiler);
    compiler.current_dir(dir).args(["-std=gnu11", "-fno-strict-aliasing", "-DNF_VERIFY=1"]);
    if toolchain.compiler.contains("gcc") {
        compiler.args(GCC_FLAGS);
    }
    // Every stage's file has the program's constants, as every engine on a chip has its own.
    compiler.args(sources).args(["-Wl,-z,muldefs", "-o", "app"]);
    compiler.args(toolchain.flags.iter().map(|flag| filled(flag, toolchain, "")));
    let failed = |message: String| DpdkError::Exec {
        command: format!("{} (toolchain of the target)", toolchain.compiler),
        message,
    };
    let ran = compiler
        .output()
        .map_err(|e| failed(format!("{e}; install it, or name another in the spec")))?;
    if ran.status.success() {
        return Ok(());
    }
    let text = String::from_utf8_lossy(&ran.stderr);
    let lines: Vec<&str> = text.lines().take(SHOWN).collect();
    Err(failed(format!("it refuses the generated files:\n{}", lines.join("\n"))))
}

/// The command that runs an image.
pub fn run(toolchain: &Toolchain, image: &Path) -> Command {
    exec::shell(&filled(&toolchain.run, toolchain, "'"), &[("image", &image.to_string_lossy())])
}

/// A text of the spec with folders in place of words in braces, each between two `quote`s.
fn filled(text: &str, toolchain: &Toolchain, quote: &str) -> String {
    let board = toolchain.board.as_deref().unwrap_or(Path::new("."));
    let picolibc = tools::installed("NICFORGE_PICOLIBC", "picolibc", "complete");
    let picolibc = picolibc.unwrap_or_else(|| "/usr/lib/picolibc/riscv64-unknown-elf".into());
    [("{board}", board), ("{picolibc}", &picolibc)]
        .iter()
        .fold(text.to_string(), |text, (word, path)| {
            text.replace(word, &format!("{quote}{}{quote}", path.display()))
        })
}
