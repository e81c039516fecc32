//! The folders of `examples/`, compiled and with their captures and tables read.

use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};

use nicforge_ir::verify::{Verified, verify};
use nicforge_ir::{Entry, InputEvent, Interp, Output, Program, TableId, timers};
use nicforge_run::control;
use nicforge_run::pcap::{self, SourceKind};

use crate::{root, share};

/// An example with its inputs.
pub struct Example {
    pub name: String,
    pub folder: PathBuf,
    pub program: Verified<Program>,
    /// Front end warnings, rendered.
    pub warnings: String,
    pub events: Vec<InputEvent>,
    pub entries: Vec<(TableId, Entry)>,
}

impl Example {
    /// Compiles a folder's program, or reads its text, and what is beside it.
    pub fn load(folder: PathBuf) -> Example {
        let name = folder.file_name().expect("a folder has a name").to_string_lossy().into_owned();
        let text = folder.join(format!("{name}.air"));
        let (program, warnings) = if text.is_file() {
            let text = std::fs::read_to_string(&text)
                .unwrap_or_else(|e| panic!("{}: {e}", text.display()));
            (
                nicforge_ir::text::parse(&text).unwrap_or_else(|e| panic!("{name}: {e}")),
                String::new(),
            )
        } else {
            let options = nicforge_frontend::Options::new(root().join("runtime/include"));
            let output = nicforge_frontend::compile(&folder.join(format!("{name}.c")), &options)
                .unwrap_or_else(|diagnostics| panic!("{}", diagnostics.render(false)));
            let warnings =
                nicforge_frontend::render_all(&output.warnings, &output.program.files, false);
            (output.program, warnings)
        };
        let program = verify(program).unwrap_or_else(|errors| panic!("{name}: {errors:?}"));
        let mut captures = Vec::new();
        for port in 0..program.ports {
            let file =
                if port == 0 { "traffic.pcap".to_string() } else { format!("traffic.{port}.pcap") };
            captures.push((SourceKind::Port(port), folder.join(file)));
        }
        captures.push((SourceKind::Host, folder.join("traffic.host.pcap")));
        let read = |(kind, path): (SourceKind, PathBuf)| {
            path.is_file().then(|| (kind, pcap::read(&path).unwrap_or_else(|e| panic!("{e}"))))
        };
        let captures: Vec<_> = captures.into_iter().filter_map(read).collect();
        let tables = folder.join("tables.toml");
        let entries = if tables.is_file() {
            control::load_tables(&program, &tables).unwrap_or_else(|e| panic!("{e}"))
        } else {
            Vec::new()
        };
        let events = timers::with_ticks(&program, pcap::merge(&captures))
            .unwrap_or_else(|e| panic!("{name}: {e}"));
        Example { events, name, folder, program, warnings, entries }
    }

    /// The interpreter with the tables filled.
    pub fn interp(&self) -> Interp<'_> {
        let mut interp = Interp::new(&self.program);
        control::apply(&mut interp, &self.entries).unwrap_or_else(|e| panic!("{}: {e}", self.name));
        interp
    }

    /// What the interpreter does with each event.
    pub fn outputs(&self, interp: &mut Interp) -> Vec<Vec<Output>> {
        let run = |(i, event): (usize, &InputEvent)| {
            interp.run(event).unwrap_or_else(|e| panic!("{}, event {}: {e}", self.name, i + 1))
        };
        self.events.iter().enumerate().map(run).collect()
    }
}

/// Calls `check` for every example, on two threads.
pub fn for_each(check: impl Fn(&Example) + Sync) {
    for_each_of(1, check);
}

/// Calls `check` for every `every`-th example, on two threads; `make soak` takes all.
pub fn for_each_of(every: usize, check: impl Fn(&Example) + Sync) {
    let folder = root().join("examples");
    let entries =
        std::fs::read_dir(&folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
    let mut folders: Vec<PathBuf> =
        entries.flatten().map(|e| e.path()).filter(|p| p.join("traffic.py").is_file()).collect();
    folders.sort();
    assert!(folders.len() >= 15, "only {} examples in {}", folders.len(), folder.display());
    let folders = share(folders, every);
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while let Some(folder) = folders.get(next.fetch_add(1, Ordering::Relaxed)) {
                    check(&Example::load(folder.clone()));
                }
            });
        }
    });
}
