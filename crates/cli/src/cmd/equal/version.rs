//! One of the two programs that are compared.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use nicforge_bound::analysis::{self, Options};
use nicforge_bound::ebpf;
use nicforge_bound::equal::Side;
use nicforge_bound::method::Method;
use nicforge_bound::search::By;
use nicforge_driver::options::Source;
use nicforge_driver::{Failure, program};
use nicforge_isa::object;
use nicforge_lift::Chain;
use nicforge_run::xdp::Loader;

use crate::cmd::bound::load;

/// Most time for the guarantee of a version.
const GUARANTEE: Duration = Duration::from_secs(2);

/// A program, the object it is in, and what the loader decides.
pub struct Version {
    /// File and program.
    pub name: String,
    pub function: String,
    pub side: Side,
    bytes: Vec<u8>,
    sizes: Vec<(String, u32)>,
    tail_calls: Vec<(String, u32, String)>,
    data: Vec<(String, Vec<u8>)>,
}

/// What a version guarantees: instructions that no packet exceeds.
#[derive(Clone, Copy, Debug)]
pub struct Guarantee {
    pub instructions: u64,
    pub pps: f64,
    /// A packet needs them.
    pub exact: bool,
}

impl Version {
    /// Reads or compiles a program: `path` in place of the source's.
    pub fn read(source: &Source, path: &Path) -> Result<Version, Failure> {
        let source = Source { program: path.to_path_buf(), ..source.clone() };
        let (path, wanted) =
            program::object_of(&source).unwrap_or((path.to_path_buf(), source.function.clone()));
        let fail = |message: String| Failure::user(format!("{}: {message}", path.display()));
        let bytes = load::object(&path, &source.define)?.ok_or_else(|| {
            fail("neither an ELF object nor C source: --against compares XDP programs".to_string())
        })?;
        Version::of(&source, &path, wanted.as_deref(), bytes)
    }

    /// An object's program, and the one that is made of it for xdp.
    pub fn made_again(source: &Source) -> Result<(Version, Version), Failure> {
        let Some((path, _)) = program::object_of(source) else {
            return Err(Failure::usage(format!(
                "{}: --prove is for XDP objects; for versions of a C program there is --against",
                source.program.display()
            )));
        };
        let old = Version::read(source, &source.program)?;
        let made = load::generated(source)?;
        let alone = Source { loader: Default::default(), ..source.clone() };
        let mut new = Version::of(&alone, &path, None, made)?;
        new.name = format!("{}, made again", path.display());
        Ok((old, new))
    }

    fn of(
        source: &Source,
        path: &Path,
        wanted: Option<&str>,
        bytes: Vec<u8>,
    ) -> Result<Version, Failure> {
        let fail = |message: String| Failure::user(format!("{}: {message}", path.display()));
        let mut object = object::parse(&bytes).map_err(|e| fail(e.to_string()))?;
        let before: Vec<u32> = object.maps.iter().map(|map| map.max_entries).collect();
        let options = program::lift_options(path, None, &source.loader);
        let data = nicforge_lift::set(&mut object, &options).map_err(|e| fail(e.to_string()))?;
        let chosen = nicforge_lift::choose(&object, wanted);
        let chosen = chosen.map_err(|e| fail(e.to_string()))?;
        let chain = Chain::of(&object, chosen, &source.loader.tail_calls);
        let Chain { program, slots, names, .. } = chain.map_err(|e| fail(e.to_string()))?;
        let sized = object.maps.iter().zip(&before).filter(|(map, old)| map.max_entries != **old);
        let sizes = sized.map(|(map, _)| (map.name.clone(), map.max_entries)).collect();
        Ok(Version {
            name: format!("{} ({})", path.display(), program.name),
            function: program.name.clone(),
            side: Side { program, maps: object.maps, tails: slots },
            bytes,
            sizes,
            tail_calls: names,
            data,
        })
    }

    /// The program in the kernel.
    pub fn load(&self) -> Result<nicforge_run::xdp::Original, nicforge_run::xdp::XdpError> {
        let loader = Loader {
            is_tc: false,
            sizes: &self.sizes,
            tail_calls: &self.tail_calls,
            data: &self.data,
        };
        nicforge_run::xdp::Original::load(&self.bytes, &self.function, &loader)
    }

    /// The most instructions a packet takes, as `bound` says it; none where it says nothing.
    pub fn guarantee(&self) -> Option<Guarantee> {
        let Side { program, maps, tails } = &self.side;
        let graph = ebpf::chained(program, maps, tails).ok()?;
        let machine = load::kernel();
        let options = Options {
            machine,
            sizes: (60, 1500),
            by: vec![By::PacketRate],
            required: None,
            top: 1,
            all: false,
            unroll: None,
            timeout: Some(GUARANTEE),
            given: Vec::new(),
            method: Method::Default,
            path: None,
        };
        let stop = Arc::new(AtomicBool::new(false));
        let report = analysis::analyse(graph, &options, stop, &mut |_, _| {}).ok()?;
        let record = report.records.first()?;
        let instructions = (record.bound * machine.hz).round() as u64;
        Some(Guarantee { instructions, pps: 1.0 / record.bound, exact: record.exact })
    }
}
