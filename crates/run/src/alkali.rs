//! A program of Alkali as plain C on this machine (`runtime/alkali`): an execution that shares no
//! code with the front end or the interpreter.

use std::path::Path;
use std::process::Command;

use nicforge_ir::Output;
use nicforge_util::random::Random;

use crate::fault::Fault;
use crate::temp::Folder;

/// Why it did not run.
#[derive(Debug, thiserror::Error)]
pub enum AlkaliError {
    #[error("{0}: {1}")]
    File(String, std::io::Error),
    #[error("{clang} refuses the program as plain C:\n{0}", clang = nicforge_clang::name())]
    Refused(String),
    #[error("the program as plain C ended with {0}")]
    Ended(String),
}

impl AlkaliError {
    /// The party that has to act.
    pub fn fault(&self) -> Fault {
        match self {
            AlkaliError::File(..) => Fault::Environment,
            _ => Fault::User,
        }
    }
}

/// Different frames that start alike: fewer than the smallest table of the programs has entries.
const FLOWS: usize = 40;
/// Bytes in which frames of one flow are the same.
const SAME: usize = 96;

/// Frames to compare on: random bytes in a number of flows, some of them cut short.
pub fn frames(seed: u64, count: usize) -> Vec<Vec<u8>> {
    let mut random = Random::new(seed);
    let flows: Vec<Vec<u8>> =
        (0..FLOWS).map(|_| (0..SAME).map(|_| random.next() as u8).collect()).collect();
    (0..count)
        .map(|_| {
            let mut frame = flows[random.index(FLOWS)].clone();
            let rest = random.index(200);
            frame.extend((0..rest).map(|_| random.next() as u8));
            if random.below(50) == 0 {
                frame.truncate(random.index(SAME));
            }
            frame
        })
        .collect()
}

/// What the handler `name` of a program makes of frames, one after the other. `headers` is the
/// folder `runtime/alkali`.
///
/// # Errors
/// If clang refuses the program, or it does not end well.
pub fn run(
    program: &Path,
    name: &str,
    headers: &Path,
    frames: &[Vec<u8>],
) -> Result<Vec<Vec<Output>>, AlkaliError> {
    let file = |path: &Path, e| AlkaliError::File(path.display().to_string(), e);
    let dir = Folder::new("alkali").map_err(|e| file(program, e))?;
    let text = std::fs::read_to_string(program).map_err(|e| file(program, e))?;
    // Programs from before alkali.h declare its functions, and a buffer of their own.
    let own_buffer = text.contains("struct buf_t {");
    let kept = text.lines().filter(|line| !(own_buffer && line.starts_with("extern ")));
    let (copy, start) = (dir.path().join("program.c"), dir.path().join("start.c"));
    let write = |path: &Path, text: &str| std::fs::write(path, text).map_err(|e| file(path, e));
    write(&copy, &kept.collect::<Vec<_>>().join("\n"))?;
    write(
        &start,
        "#include \"alkali.h\"\n#define main ak_main\n#include \"program.c\"\n#include \"native.h\"\n",
    )?;
    let binary = dir.path().join("program");
    let mut clang = Command::new(nicforge_clang::name());
    clang.args(["-std=gnu11", "-O1", "-w", "-fwrapv", "-fno-strict-aliasing"]);
    // Locals start at zero here.
    clang.args(["-ftrivial-auto-var-init=zero", "-fno-color-diagnostics"]);
    clang.arg(format!("-DAK_HANDLER={name}")).args(own_buffer.then_some("-DAK_OWN_BUFFER"));
    clang.arg("-I").arg(headers).arg(&start).arg("-o").arg(&binary);
    let compiled = clang.output().map_err(|e| file(Path::new(nicforge_clang::name()), e))?;
    if !compiled.status.success() {
        return Err(AlkaliError::Refused(String::from_utf8_lossy(&compiled.stderr).into_owned()));
    }
    let mut given = Vec::new();
    for frame in frames {
        given.extend((frame.len() as u32).to_le_bytes());
        given.extend(frame);
    }
    let input = dir.path().join("frames");
    std::fs::write(&input, given).map_err(|e| file(&input, e))?;
    let input = std::fs::File::open(&input).map_err(|e| file(&input, e))?;
    let ran = Command::new(&binary).stdin(input).output().map_err(|e| file(&binary, e))?;
    if !ran.status.success() {
        return Err(AlkaliError::Ended(ran.status.to_string()));
    }
    read(&ran.stdout).ok_or_else(|| AlkaliError::Ended("half a record".to_string()))
}

/// Reads what left for each frame, as `native.h` writes it.
fn read(mut bytes: &[u8]) -> Option<Vec<Vec<Output>>> {
    let (mut all, mut of_one) = (Vec::new(), Vec::new());
    while let Some((kind, rest)) = bytes.split_first() {
        let (address, rest) = rest.split_at_checked(8)?;
        let (length, rest) = rest.split_at_checked(4)?;
        let length = u32::from_le_bytes(length.try_into().ok()?) as usize;
        let (data, rest) = rest.split_at_checked(length)?;
        bytes = rest;
        let (addr, data) = (u64::from_le_bytes(address.try_into().ok()?), data.to_vec());
        match kind {
            b's' => of_one.push(Output::Send { port: 0, frame: data }),
            b'd' => of_one.push(Output::DmaWrite { addr, data }),
            _ => all.push(std::mem::take(&mut of_one)),
        }
    }
    Some(all)
}
