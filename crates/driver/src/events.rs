//! Input events and table contents of a run, from the command line or from the program's siblings.

use std::path::{Path, PathBuf};

use nicforge_ir::{Entry, InputEvent, Program, TableBackend, TableId, timers};
use nicforge_run::pcap::{self, Frame, SourceKind};

use crate::Failure;
use crate::options::Inputs;

/// Reads the captures: those named, else `traffic.pcap` (and `host.pcap`) beside the program. The
/// program's timers fire between their packets.
pub fn captures(
    inputs: &Inputs,
    program: &Program,
    path: &Path,
) -> Result<Vec<InputEvent>, Failure> {
    let mut sources = Vec::new();
    for text in &inputs.pcap {
        sources
            .push(pcap::parse_source(text, program.ports).map_err(|e| Failure::of(e.fault(), e))?);
    }
    if sources.is_empty() {
        sources = siblings(program, path);
    }
    if sources.is_empty() {
        return Err(Failure::usage(format!(
            "no packets to run on: give --pcap FILE, or put traffic.pcap beside {}",
            path.display()
        )));
    }
    let mut read = Vec::new();
    for source in sources {
        let frames = pcap::read(&source.path).map_err(|e| Failure::of(e.fault(), e))?;
        read.push((source.kind, frames));
    }
    timers::with_ticks(program, pcap::merge(&read)).map_err(|e| Failure::user(e.to_string()))
}

/// `traffic.pcap` for port 0, `traffic.PORT.pcap` for the others, `traffic.host.pcap` for the host
/// side.
fn siblings(program: &Program, path: &Path) -> Vec<pcap::Source> {
    let folder = path.parent().unwrap_or(Path::new(""));
    let ports = (0..program.ports).map(|port| {
        let name =
            if port == 0 { "traffic.pcap".to_string() } else { format!("traffic.{port}.pcap") };
        (SourceKind::Port(port), name)
    });
    ports
        .chain([(SourceKind::Host, "traffic.host.pcap".to_string())])
        .map(|(kind, name)| pcap::Source { kind, path: folder.join(name) })
        .filter(|source| source.path.is_file())
        .collect()
}

/// Table contents: the file named, else `tables.toml` beside the program, else none.
pub fn tables(
    inputs: &Inputs,
    program: &Program,
    path: &Path,
) -> Result<Vec<(TableId, Entry)>, Failure> {
    let Some(file) = tables_file(inputs, path) else { return Ok(Vec::new()) };
    nicforge_run::control::load_tables(program, &file).map_err(|e| Failure::of(e.fault(), e))
}

/// The file with a program's table contents, if there is one.
pub fn tables_file(inputs: &Inputs, path: &Path) -> Option<PathBuf> {
    let beside = || path.parent().unwrap_or(Path::new("")).join("tables.toml");
    inputs.tables.clone().or_else(|| Some(beside()).filter(|file| file.is_file()))
}

/// Puts the entries into a running or interpreted program.
pub fn fill(backend: &mut dyn TableBackend, entries: &[(TableId, Entry)]) -> Result<(), Failure> {
    for (table, entry) in entries {
        backend.set(*table, entry).map_err(|e| Failure::user(e.to_string()))?;
    }
    Ok(())
}

/// Writes sent frames: one capture, or NAME.PORT.pcap for each port of several.
pub fn write(out: &Path, sent: &[Vec<(u64, Vec<u8>)>]) -> Result<(), Failure> {
    for (port, list) in sent.iter().enumerate() {
        let path = match sent.len() {
            1 => out.to_path_buf(),
            _ => out.with_extension(format!(
                "{port}.{}",
                out.extension().map_or("pcap".into(), |e| e.to_string_lossy())
            )),
        };
        let frames: Vec<Frame> = list
            .iter()
            .map(|(time_ns, data)| Frame {
                time_ns: *time_ns,
                original_length: data.len() as u32,
                data: data.clone(),
            })
            .collect();
        let fail = |e: std::io::Error| Failure::user(format!("{}: {e}", path.display()));
        let mut file = std::io::BufWriter::new(std::fs::File::create(&path).map_err(fail)?);
        pcap::write(&mut file, &frames).map_err(fail)?;
        std::io::Write::flush(&mut file).map_err(fail)?;
    }
    Ok(())
}
