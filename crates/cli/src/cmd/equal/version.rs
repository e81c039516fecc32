//! One of the two programs that are compared.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use nicforge_bound::air;
use nicforge_bound::air::exact::{Kernel, Keys, Records, TableMap};
use nicforge_bound::analysis::{self, Options};
use nicforge_bound::ebpf;
use nicforge_bound::equal::{Reference, Side};
use nicforge_bound::method::Method;
use nicforge_bound::search::By;
use nicforge_codegen::abi::record;
use nicforge_codegen::artifact::{XdpArtifact, XdpMapShape, XdpProgram};
use nicforge_driver::options::Source;
use nicforge_driver::{Failure, Runtime, program, targets};
use nicforge_ir::{Direction, Event, EventId, Program};
use nicforge_isa::object::{self, Map};
use nicforge_lift::Chain;
use nicforge_passes::PassManager;
use nicforge_passes::registry::PREPARE;
use nicforge_run::xdp::Loader;

use crate::cmd::bound::load;
use crate::out;

/// Most time for the guarantee of a version.
const GUARANTEE: Duration = Duration::from_secs(2);

/// The map of ports in objects of ours, and the variable that says which interface each is.
const PORTS: &str = "nf_ports";
const CONFIG: &str = "nf_config";
/// The ring to the program's host side.
const HOST: &str = "nf_host";
/// The variable that is zero where the verifier is not to know it.
const ZERO: &str = "nf_zero";
/// Tables of hashes.
const CRC: &str = "nf_crc32c";

/// A program, the object it is in, and what the loader decides.
#[derive(Clone)]
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
        let path =
            program::object_of(source).map_or_else(|| source.program.clone(), |(path, _)| path);
        let old = Version::read(source, &source.program)?;
        let made = load::generated(source)?;
        let alone = Source { loader: Default::default(), ..source.clone() };
        let mut new = Version::of(&alone, &path, None, made)?;
        new.name = format!("{}, made again", path.display());
        Ok((old, new))
    }

    /// A program of ours, and the object that is made of it for xdp, or one that is given.
    pub fn made_of(
        source: &Source,
        object: Option<&Path>,
    ) -> Result<(Version, Version, Reference), Failure> {
        let text = std::fs::read_to_string(&source.program).unwrap_or_default();
        if text.contains("<linux/bpf.h>") {
            return Err(Failure::usage(format!(
                "{}: C for the kernel; --prove is for programs with nicforge.h and for XDP \
                 objects: compile it first",
                source.program.display()
            )));
        }
        let runtime = Runtime::unpack()?;
        let loaded = program::load(&source.on(&targets::find("xdp")?), &runtime)?;
        out::notes(&loaded.warnings);
        let path = &loaded.path;
        let fail = |reason: &str| Failure::user(format!("{}: {reason}", path.display()));
        let lowered = program::lower(&loaded.program)?;
        // Queues to handlers that could not be joined with those in front of them.
        let divides = |(id, event): &(EventId, &Event)| {
            event.direction == Direction::Internal && lowered.handler_of(*id).is_some()
        };
        if let Some((_, queue)) = lowered.events.iter().find(divides) {
            return Err(Failure::open(format!(
                "{}: not proved: queue `{}` divides the program, and --prove follows one handler",
                path.display(),
                queue.name
            )));
        }
        let built = program::build_live(&loaded, &runtime)?;
        let received = built.program.event_named("net_recv");
        let of_packets = |program: &&XdpProgram| Some(program.event) == received;
        let entry = built.artifact.programs.iter().find(of_packets);
        let entry = entry.ok_or_else(|| fail("the program has no handler for `net_recv`"))?;
        let bytes = match object {
            Some(object) => load::object(object, &[])?
                .ok_or_else(|| Failure::user(format!("{}: no ELF object", object.display())))?,
            None => built.object,
        };
        let at = object.unwrap_or(path);
        let mut new = Version::of(source, at, Some(&entry.name), bytes.clone())?;
        set_ports(&mut new, &bytes);
        let mut manager = PassManager::new();
        // As the front end gave it: what passes make of it is part of what is proved.
        let program =
            manager.run(loaded.program.clone(), &PREPARE).map_err(program::pass_failure)?;
        let handler = program.event_named("net_recv").and_then(|event| program.handler_of(event));
        let handler = handler.ok_or_else(|| fail("the program has no handler for `net_recv`"))?;
        let kernel =
            surroundings(&program, &built.program, &built.artifact, &new.side.maps, &bytes);
        let mut old = Version { name: format!("{}", path.display()), ..new.clone() };
        old.function.clear();
        if object.is_none() {
            new.name = format!("{}, made for xdp", path.display());
        }
        Ok((old, new, Reference { program, handler, kernel }))
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

/// Where a program's tables are among an object's maps, and what else both sides know.
fn surroundings(
    program: &Program,
    built: &Program,
    artifact: &XdpArtifact,
    maps: &[Map],
    object: &[u8],
) -> Kernel {
    let named = |name: &str| maps.iter().position(|map| map.name == name);
    let place = |name: &str| global(object, name).map(|it| (it.map, it.off as u64));
    let tables = air::crc_tables();
    let crc = place(CRC).filter(|(map, at)| {
        let data = maps[*map].data.get(*at as usize..);
        maps[*map].constant && data.is_some_and(|data| data.starts_with(&tables))
    });
    let (ports, zero) = (named(PORTS), place(ZERO));
    let records = named(HOST).map(|map| Records {
        map,
        packet: record::HOST_RECV,
        message: record::HOST_MSG,
        write: record::DMA_WRITE,
        copy: record::NET_COPY,
    });
    let mut kernel = Kernel { ports, records, zero, crc, ..Kernel::default() };
    for table in &artifact.tables {
        let name = &built.tables[table.table].name;
        let ours = program.tables.iter().find(|(_, ours)| ours.name == *name);
        let (Some((id, ours)), Some(map), None) = (ours, named(&table.map), &table.buf) else {
            continue;
        };
        let (keys, key) = match table.shape {
            XdpMapShape::Exact => (Keys::Same, program.size_of(ours.key)),
            XdpMapShape::Array | XdpMapShape::PerCpuSum => (Keys::Index, 4),
            XdpMapShape::Lpm => (Keys::Prefix, 4 + program.size_of(ours.key)),
            XdpMapShape::TernaryList => continue,
        };
        let value = table.front + program.size_of(ours.value);
        if (maps[map].key_size, maps[map].value_size) == (key, value) {
            kernel.tables.insert(id, TableMap { map, keys, front: table.front });
        }
    }
    kernel
}

/// A variable of an object.
fn global(object: &[u8], name: &str) -> Option<object::Global> {
    object::parse(object).ok()?.globals.into_iter().find(|global| global.name == name)
}

/// Says which interfaces ports are, as the loader would: port n is interface n + 1.
fn set_ports(version: &mut Version, object: &[u8]) {
    let Some(config) = global(object, CONFIG) else { return };
    let (from, to) = (config.off, config.off + config.size);
    let Some(bytes) = version.side.maps[config.map].data.get_mut(from..to) else { return };
    for (number, word) in bytes.chunks_exact_mut(4).enumerate() {
        // The first word is how many there are.
        word.copy_from_slice(&(number as u32).to_le_bytes());
    }
}
