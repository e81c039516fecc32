//! One example: both programs, its packets and its tables.

use std::path::{Path, PathBuf};

use nicforge_codegen::{LineStyle, XdpArtifact, xdp};
use nicforge_ir::verify::{Verified, verify};
use nicforge_ir::{Entry, Input, InputEvent, Program, TableId};
use nicforge_passes::PassManager;
use nicforge_run::compile::Mode;
use nicforge_run::pcap::{self, SourceKind};
use nicforge_run::xdp::compile_bpf;
use nicforge_run::xdp::{LARGEST_TEST_FRAME, LoadOptions, Loaded, SMALLEST_FRAME};
use nicforge_run::{control, xdp::XdpError};

use crate::{Failure, at};

/// Which of the two programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Author {
    Generated,
    ByHand,
}

/// An example, compiled as far as both modes share.
pub struct Case {
    pub name: &'static str,
    pub program: Verified<Program>,
    pub artifact: XdpArtifact,
    /// Packets that the kernel's test run takes.
    pub events: Vec<InputEvent>,
    /// What the control plane sets at first.
    pub entries: Vec<(TableId, Entry)>,
    root: PathBuf,
}

/// The repository.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

impl Case {
    /// Reads and compiles an example to C.
    pub fn new(name: &'static str) -> Result<Case, Failure> {
        Case::in_folder(name, &root().join("examples").join(name))
    }

    /// The same for a source, `NAME.c`, with a capture beside it.
    pub fn in_folder(name: &'static str, folder: &Path) -> Result<Case, Failure> {
        let root = root();
        let source = folder.join(format!("{name}.c"));
        let options = nicforge_frontend::Options::new(root.join("runtime/include"));
        let program = nicforge_frontend::compile(&source, &options)
            .map_err(|diagnostics| Failure(diagnostics.render(false)))?
            .program;
        let program =
            verify(program).map_err(|errors| Failure(format!("{name}: {}", errors[0])))?;
        let program = PassManager::new().run_default(program).map_err(at(name))?;
        let artifact = xdp::generate(&program, LineStyle::Comments)
            .map_err(|errors| Failure(format!("{name}: {}", errors[0])))?;
        let events = events(&program, folder)?;
        let tables = folder.join("tables.toml");
        let entries = if tables.is_file() {
            control::load_tables(&program, &tables).map_err(at(name))?
        } else {
            Vec::new()
        };
        Ok(Case { name, program, artifact, events, entries, root })
    }

    /// Compiles one of the programs and loads it, with its tables as the control plane sets them.
    pub fn load(&self, author: Author, mode: Mode) -> Result<Loaded, Failure> {
        let folder = |path: &str| vec![self.root.join(path)];
        let (source, includes, what) = match author {
            Author::Generated => {
                (self.artifact.source.plain.clone(), folder("runtime/xdp"), "generated")
            }
            Author::ByHand => (self.by_hand()?, folder("bench/handwritten"), "hand-written"),
        };
        let what = format!("{} ({what})", self.name);
        let object = compile_bpf(self.name, &source, mode, &includes).map_err(at(&what))?;
        let ifindex = (0..self.program.ports).map(interface_of).collect();
        let loaded =
            Loaded::load(&self.program, &self.artifact, &object, &LoadOptions { mode, ifindex })
                .map_err(at::<XdpError>(&what))?;
        control::apply(&mut loaded.tables(), &self.entries).map_err(at(&what))?;
        Ok(loaded)
    }

    fn by_hand(&self) -> Result<String, Failure> {
        let path = self.root.join("bench/handwritten").join(format!("{}.bpf.c", self.name));
        std::fs::read_to_string(&path).map_err(at(&path.display().to_string()))
    }

    /// Frame and port of each packet.
    pub fn packets(&self) -> impl Iterator<Item = (&InputEvent, u32, &[u8])> {
        self.events.iter().filter_map(|event| match &event.input {
            Input::Net { port, frame } => Some((event, *port, frame.as_slice())),
            Input::Host { .. } | Input::Tick { .. } => None,
        })
    }
}

/// The interface that stands for a port where no packet really leaves. The kernel's test run says
/// that packets come in by interface 1.
pub fn interface_of(port: u32) -> u32 {
    port + 1
}

/// The captures beside an example: `traffic.pcap` for port 0, `traffic.PORT.pcap` for the others.
fn events(program: &Program, folder: &Path) -> Result<Vec<InputEvent>, Failure> {
    let mut captures = Vec::new();
    for port in 0..program.ports {
        let name =
            if port == 0 { "traffic.pcap".to_string() } else { format!("traffic.{port}.pcap") };
        let path = folder.join(name);
        if path.is_file() {
            let frames = pcap::read(&path).map_err(at(&path.display().to_string()))?;
            captures.push((SourceKind::Port(port), frames));
        }
    }
    let mut events = pcap::merge(&captures);
    events.retain(|event| {
        matches!(&event.input, Input::Net { frame, .. }
            if (SMALLEST_FRAME..=LARGEST_TEST_FRAME).contains(&frame.len()))
    });
    if events.is_empty() {
        return Err(Failure(format!("{}: there is no traffic.pcap to run on", folder.display())));
    }
    Ok(events)
}
