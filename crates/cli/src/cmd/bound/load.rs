//! From a file of whatever kind to a graph and the machine it runs on.

use std::path::Path;
use std::time::Duration;

use nicforge_bound::air::Lowered;
use nicforge_bound::graph::{Graph, Place, Walked};
use nicforge_bound::plan::timer_cycles;
use nicforge_bound::search::Machine;
use nicforge_bound::unit::Unit;
use nicforge_bound::witness::Witness;
use nicforge_bound::{ebpf, nfp, replay, rv};
use nicforge_codegen::{LineStyle, xdp};
use nicforge_driver::options::{Loader, Source};
use nicforge_driver::{Failure, Runtime, program, targets};
use nicforge_ir::{self as ir, Verified};
use nicforge_isa::lower::{self, Driver};
use nicforge_isa::nfp::cost;
use nicforge_isa::nfp::{self as isa, Insn};
use nicforge_isa::object::{self, Map, Program, riscv};
use nicforge_lift::Chain;
use nicforge_run::compile;
use nicforge_run::spin::Layout;
use nicforge_target::Target;

use super::suppose;
use crate::args::{Bound, BoundTarget};
use crate::cmd::spin::{build, handlers};
use crate::out;

/// The subject of an analysis.
pub struct Subject {
    pub graph: Graph,
    pub machine: Machine,
    /// NFP instructions, on that target.
    pub listing: Option<Vec<Insn>>,
    /// The eBPF program, where there is one.
    pub program: Option<(Program, Vec<Map>)>,
    /// Programs that its tail calls lead to.
    pub tails: ebpf::Tails,
    /// The object file it came from.
    pub object: Vec<u8>,
    /// What rates rest on.
    pub label: &'static str,
    /// Rates may be so much too high, as measured on hardware.
    pub margin: Option<f64>,
    pub target: String,
    /// What is shared besides cores.
    pub engine: &'static str,
    /// The αIR program, where there is one.
    pub air: Option<(Verified<ir::Program>, Lowered)>,
    /// What the bound rests on besides costs.
    pub presumed: Vec<String>,
    /// Timers take cycles of the cores, at most so many: rates are bounds, though paths are exact.
    pub timers: bool,
    /// RISC-V handlers and what is around the cores that run them.
    pub handler: Option<(rv::Program, rv::Surroundings)>,
}

impl Subject {
    /// Says so if the costs are not those that were checked.
    fn modelled(&mut self, modelled: bool) {
        if modelled {
            self.label = "modelled: costs checked against hardware, but not those of hash maps, DRAM writes and wide atomic additions";
            self.margin = None;
        }
    }

    /// Runs a witness on the interpreter.
    pub fn replay(&self, witness: &Witness) -> Result<(), String> {
        if let Some((program, around)) = &self.handler {
            return rv::replay::replay(program, around, &self.graph, witness);
        }
        if let Some((program, lowered)) = &self.air {
            return replay::air(program, lowered, witness);
        }
        match (&self.listing, &self.program) {
            (Some(insns), _) => replay::nfp(insns, witness).map(|_| ()),
            (None, Some((program, maps))) => replay::chained(program, maps, &self.tails, witness),
            (None, None) => Ok(()),
        }
    }
}

impl Subject {
    /// Instructions a path executes, which are not its cycles.
    pub fn executed(&self, witness: &Witness) -> Option<u64> {
        match &self.listing {
            Some(insns) => replay::nfp(insns, witness).ok(),
            // There each takes a cycle.
            None if self.target == "xdp" => Some(witness.work.milli / 1000),
            None => None,
        }
    }
}

/// Time to look for the slowest path of a timer's handler; what is found by then holds.
const TIMERS: Duration = Duration::from_secs(1);

/// The Agilio CX that was measured.
fn agilio() -> Machine {
    Machine {
        base_cycles: cost::BASE_CYCLES.into(),
        cores: cost::CORES.into(),
        hz: cost::CLOCK_HZ,
        port_pps: Some(cost::PORT_PPS),
        port_bps: Some(80e9),
    }
}

/// A core that takes a nanosecond per instruction.
pub fn kernel() -> Machine {
    Machine { base_cycles: 0.0, cores: 1.0, hz: 1e9, port_pps: None, port_bps: None }
}

/// Reads the file; its content says what it is.
pub fn load(args: &Bound) -> Result<Subject, Failure> {
    let path = &args.file;
    let fail = |message: String| Failure::user(format!("{}: {message}", path.display()));
    if args.driver.is_some() && args.target != BoundTarget::AgilioXdp {
        return Err(Failure::usage("--driver is for --target agilio-xdp".to_string()));
    }
    if let BoundTarget::Described(target) = &args.target {
        let target = targets::find(target)?;
        let start = std::fs::File::open(path).and_then(|file| {
            let mut start = Vec::new();
            let read = std::io::Read::read_to_end(&mut std::io::Read::take(file, 20), &mut start);
            read.map(|_| start)
        });
        let handlers = |start: &[u8]| {
            object::is_elf(start) && start.get(18..20) != Some(&object::MACHINE.to_le_bytes())
        };
        if start.is_ok_and(|start| handlers(&start)) {
            let bytes = std::fs::read(path).map_err(|e| fail(e.to_string()))?;
            return from_handlers(args, &target, &bytes);
        }
        if let Some(handlers) = handlers::at(path) {
            let flags: Vec<String> = args.define.iter().map(|d| format!("-D{d}")).collect();
            let layout = Layout::of(&target).map_err(|e| Failure::usage(e.to_string()))?;
            let built = build::image(&[handlers.path], layout, &flags)?;
            return from_handlers(args, &target, &built.elf);
        }
        return from_program(args, &target);
    }
    if args.entry.is_some() {
        return Err(Failure::usage(
            "--entry is for RISC-V handlers: --target pspin or fpspin".to_string(),
        ));
    }
    if let Some(handlers) = handlers::at(path) {
        return Err(Failure::usage(format!(
            "{file}: sPIN handlers run on targets pspin and fpspin. Type:\n  nicforge bound {file} --target {}",
            handlers.machine(),
            file = path.display()
        )));
    }
    if let Some(bytes) = object(path, &args.define)? {
        return from_object(args, &bytes, args.program.as_deref());
    }
    let bytes = std::fs::read(path).map_err(|e| fail(e.to_string()))?;
    match std::str::from_utf8(&bytes).ok().filter(|text| isa::looks_like_listing(text)) {
        Some(text) => from_listing(args, text),
        None => Err(fail(
            "neither an ELF object, nor an NFP listing (`0:  .0  immed[…]`), nor C source (.c)"
                .to_string(),
        )),
    }
}

/// The BPF object that a file is or becomes; `None` if it is something else.
pub fn object(path: &Path, define: &[String]) -> Result<Option<Vec<u8>>, Failure> {
    if path.is_dir() || path.extension().is_some_and(|extension| extension == "air") {
        return generated(&plain(path, define)).map(Some);
    }
    let fail = |message: String| Failure::user(format!("{}: {message}", path.display()));
    let bytes = std::fs::read(path).map_err(|e| fail(e.to_string()))?;
    if object::is_elf(&bytes) {
        // 243 is RISC-V.
        if bytes.get(18..20) == Some(&[243, 0]) {
            return Err(Failure::usage(format!(
                "{}: RISC-V handlers run on --target pspin or fpspin",
                path.display()
            )));
        }
        return Ok(Some(bytes));
    }
    let text = std::str::from_utf8(&bytes).ok();
    let listing = text.is_some_and(isa::looks_like_listing);
    if listing || path.extension().is_none_or(|extension| extension != "c") {
        return Ok(None);
    }
    if text.is_some_and(|text| text.contains("<nicforge.h>")) {
        return generated(&plain(path, define)).map(Some);
    }
    compile::compile_xdp(path, define).map(Some).map_err(|e| Failure::of(e.fault(), e))
}

fn plain(path: &Path, define: &[String]) -> Source {
    Source { program: path.to_path_buf(), define: define.to_vec(), ..Source::default() }
}

/// A Nicforge program, or an object, as XDP program: the object that `build` writes.
pub fn generated(source: &Source) -> Result<Vec<u8>, Failure> {
    let runtime = Runtime::unpack()?;
    let loaded = program::load(&source.on(&targets::find("xdp")?), &runtime)?;
    out::notes(&loaded.warnings);
    let lowered = program::lower(&loaded.program)?;
    let artifact = xdp::generate(&lowered, LineStyle::Directives)
        .map_err(|e| program::unsupported(&lowered, &e))?;
    Ok(program::compile_live(lowered, artifact, &runtime)?.object)
}

/// Handlers in an RV32 ELF file, on all cores of a target.
fn from_handlers(args: &Bound, target: &Target, bytes: &[u8]) -> Result<Subject, Failure> {
    let fail = |message: String| Failure::user(format!("{}: {message}", args.file.display()));
    if args.program.is_some() {
        return Err(Failure::usage(
            "--program is for eBPF objects; handlers are chosen with --entry".to_string(),
        ));
    }
    let around = rv::Surroundings::of(target, args.mtu).map_err(|reason| {
        Failure::usage(format!("{reason}; RISC-V handlers run on pspin and fpspin"))
    })?;
    let image = riscv::parse(bytes).map_err(|e| fail(e.to_string()))?;
    let entry = rv::entry(&image, args.entry.as_deref()).map_err(fail)?;
    let program = rv::Program::new(image, entry).map_err(|e| fail(e.to_string()))?;
    let graph = rv::graph(&program, &around).map_err(|e| fail(e.to_string()))?;
    Ok(Subject {
        graph,
        machine: around.machine,
        listing: None,
        program: None,
        tails: ebpf::Tails::new(),
        object: Vec::new(),
        label: "modelled: RI5CY's cycles with instructions in the cache, memory banks and ways of commands free",
        margin: None,
        target: target.name.clone(),
        engine: "commands",
        air: None,
        presumed: Vec::new(),
        timers: false,
        handler: Some((program, around)),
    })
}

/// A Nicforge program alone on a target's units.
fn from_program(args: &Bound, target: &Target) -> Result<Subject, Failure> {
    if args.cores.is_some() {
        return Err(Failure::usage("--cores is for compiled programs".to_string()));
    }
    let mut source = Source {
        program: args.file.clone(),
        define: args.define.clone(),
        include: Vec::new(),
        with: Vec::new(),
        function: args.program.clone(),
        loader: args.loader.clone(),
    };
    let object = program::object_of(&source).is_some();
    if args.program.is_some() && !object {
        return Err(Failure::usage("--program is for compiled programs".to_string()));
    }
    let known =
        ["c", "air"].iter().any(|known| args.file.extension().is_some_and(|found| found == *known));
    if !known && !args.file.is_dir() && !object {
        return Err(Failure::usage(format!(
            "{}: {} runs Nicforge programs (.c, .air, an XDP object or a folder)",
            args.file.display(),
            target.name
        )));
    }
    source = source.on(target);
    let runtime = Runtime::unpack()?;
    let loaded = program::load(&source, &runtime)?;
    out::notes(&loaded.warnings);
    let fail = |message: String| Failure::user(format!("{}: {message}", args.file.display()));
    let program = program::lower(&loaded.program)?;
    let handler = program.event_named("net_recv").and_then(|event| program.handler_of(event));
    let handler =
        handler.ok_or_else(|| fail("the program has no handler for `net_recv`".to_string()))?;
    let mut unit = Unit::alone(&program, target, args.mtu as u32)
        .ok_or_else(|| fail(format!("{} has no units", target.name)))?;
    unit.homes = super::homes::homes(&unit);
    let lowered = unit.graph(handler).map_err(|e| Failure::user(e.to_string()))?;
    let mut machine = unit.machine();
    // Any core may be the one on which all of them run.
    let ticks = timer_cycles(&unit, Some(TIMERS)).map_err(fail)?;
    if ticks >= machine.hz {
        return Err(fail(format!("timers alone may take all cycles of a core of {}", target.name)));
    }
    let share =
        format!("timers take at most {:.2} % of a core's cycles", 100.0 * ticks / machine.hz);
    machine.hz -= ticks;
    Ok(Subject {
        graph: lowered.graph.clone(),
        machine,
        listing: None,
        program: None,
        tails: ebpf::Tails::new(),
        object: Vec::new(),
        label: "modelled: tables in the nearest memories with room, whose operations per second are not counted",
        margin: None,
        target: target.name.clone(),
        engine: "threads",
        air: Some((program, lowered)),
        presumed: if ticks > 0.0 { vec![share] } else { Vec::new() },
        timers: ticks > 0.0,
        handler: None,
    })
}

fn from_listing(args: &Bound, text: &str) -> Result<Subject, Failure> {
    if args.driver.is_some() {
        return Err(Failure::usage("an NFP listing is a driver's work already".to_string()));
    }
    if args.loader != Loader::default() {
        return Err(Failure::usage(
            "--tail-call, --global and --map-entries are for BPF objects".to_string(),
        ));
    }
    if args.target == BoundTarget::Xdp {
        return Err(Failure::usage("an NFP listing runs on --target agilio-xdp only".to_string()));
    }
    listed(&args.file, text)
}

/// An NFP listing on the Agilio CX.
///
/// # Errors
/// A line that is no instruction, or code that cannot be analysed.
pub fn listed(path: &Path, text: &str) -> Result<Subject, Failure> {
    let path = path.display();
    let listing =
        isa::parse(text).map_err(|e| Failure::user(format!("{path}:{}: {}", e.line, e.reason)))?;
    let mut graph = nfp::graph(&listing.insns, false).map_err(|e| {
        let line = listing.lines.get(e.insn).copied().unwrap_or(0);
        Failure::user(format!("{path}:{line}: {}", e.reason))
    })?;
    let place = |line: &u32| Some(Place { file: path.to_string(), line: *line });
    graph.lines = listing.lines.iter().map(place).collect();
    let modelled = cost::modelled(&listing.insns);
    let mut subject = on_agilio(graph, listing.insns, None);
    subject.modelled(modelled);
    Ok(subject)
}

fn on_agilio(graph: Graph, listing: Vec<Insn>, program: Option<(Program, Vec<Map>)>) -> Subject {
    Subject {
        graph,
        machine: agilio(),
        listing: Some(listing),
        program,
        tails: ebpf::Tails::new(),
        object: Vec::new(),
        label: "costs checked against hardware",
        margin: Some(0.02),
        target: "agilio-xdp".to_string(),
        engine: "DRAM",
        air: None,
        presumed: Vec::new(),
        timers: false,
        handler: None,
    }
}

/// The program an object has, or the one that was asked for.
fn choose(args: &Bound, programs: Vec<Program>, name: Option<&str>) -> Result<Program, Failure> {
    let path = args.file.display();
    let names: Vec<&str> = programs.iter().map(|program| program.name.as_str()).collect();
    let names = names.join(", ");
    let count = programs.len();
    let mut chosen = programs.into_iter().filter(|p| name.is_none_or(|name| *name == p.name));
    match (chosen.next(), name) {
        (None, None) => Err(Failure::user(format!("{path}: no program in this object"))),
        (None, Some(name)) => {
            Err(Failure::user(format!("{path}: no program `{name}`; there are {names}")))
        }
        (Some(_), None) if count > 1 => Err(Failure::user(format!(
            "{path}: several programs; choose one with --program, or --all: {names}"
        ))),
        (Some(program), _) => Ok(program),
    }
}

/// XDP C source with one program, for the Agilio CX.
pub fn from_source(path: &Path, defines: &[String]) -> Result<Subject, Failure> {
    let bytes = compile::compile_xdp(path, defines).map_err(|e| Failure::of(e.fault(), e))?;
    let fail = |message: String| Failure::user(format!("{}: {message}", path.display()));
    let object = object::parse(&bytes).map_err(|e| fail(e.to_string()))?;
    let program = object
        .programs
        .into_iter()
        .next()
        .ok_or_else(|| fail("no program in this object".to_string()))?;
    lowered(path, program, object.maps, Driver::default(), false)
}

/// The only program of an object on the Agilio CX, with maps as if they were plain.
///
/// # Errors
/// An object that cannot be read, or code that cannot be translated or analysed.
pub fn object_plain(path: &Path, bytes: &[u8]) -> Result<Subject, Failure> {
    let fail = |message: String| Failure::user(format!("{}: {message}", path.display()));
    let mut object = object::parse(bytes).map_err(|e| fail(e.to_string()))?;
    object.maps.iter_mut().for_each(object::Map::make_plain);
    let program = object.programs.into_iter().next();
    let program = program.ok_or_else(|| fail("no program in this object".to_string()))?;
    lowered(path, program, object.maps, Driver::default(), false)
}

/// A listing that is only printed need not be one that can be analysed.
fn lowered(
    path: &Path,
    program: Program,
    maps: Vec<Map>,
    driver: Driver,
    printed: bool,
) -> Result<Subject, Failure> {
    let fail = |message: String| Failure::user(format!("{}: {message}", path.display()));
    let lowered = lower::lower_as(&program, &maps, driver).map_err(|e| fail(e.to_string()))?;
    // Other cores handle packets meanwhile. A hash map's places depend on the key by
    // multiplications, which are left open.
    let shared = lowered.writes || lowered.modelled;
    let mut graph = match nfp::graph(&lowered.insns, shared) {
        Err(_) if printed => Graph::default(),
        Err(e) if driver == Driver::Linux61 => {
            return Err(fail(format!("{e}; --driver artifact has look-ups in place")));
        }
        result => result.map_err(|e| fail(e.to_string()))?,
    };
    let place = |origin: &u32| program.lines.get(*origin as usize)?.as_ref().map(place_of);
    graph.lines = lowered.origin.iter().map(place).collect();
    graph.walked = Some(Walked::by_verifier(lowered.origin));
    let mut subject = on_agilio(graph, lowered.insns, Some((program, maps)));
    subject.modelled(lowered.modelled);
    Ok(subject)
}

fn place_of(line: &object::Line) -> Place {
    Place { file: short(&line.file), line: line.line }
}

/// The program of that name, or the only one.
pub fn from_object(args: &Bound, bytes: &[u8], name: Option<&str>) -> Result<Subject, Failure> {
    let path: &Path = &args.file;
    let fail = |message: String| Failure::user(format!("{}: {message}", path.display()));
    let mut object = object::parse(bytes).map_err(|e| fail(e.to_string()))?;
    let options = program::lift_options(path, None, &args.loader);
    nicforge_lift::set(&mut object, &options).map_err(|e| fail(e.to_string()))?;
    let program = choose(args, object.programs.clone(), name)?;
    if suppose::parse(&args.what_if)?.plain_maps {
        object.maps.iter_mut().for_each(object::Map::make_plain);
    }
    if args.target == BoundTarget::Xdp {
        let chosen = object.programs.iter().position(|known| known.name == program.name);
        let chain = Chain::of(&object, chosen.unwrap_or(0), &args.loader.tail_calls);
        let Chain { program, slots: tails, .. } = chain.map_err(|e| fail(e.to_string()))?;
        let graph = ebpf::chained(&program, &object.maps, &tails);
        let mut graph = graph.map_err(|e| fail(e.to_string()))?;
        graph.lines = program.lines.iter().map(|found| found.as_ref().map(place_of)).collect();
        let presumed = ebpf::presumed(&program, &object.maps, &tails);
        return Ok(Subject {
            graph,
            machine: kernel(),
            listing: None,
            program: Some((program, object.maps)),
            tails,
            object: bytes.to_vec(),
            label: "modelled: executed instructions, one nanosecond each",
            margin: None,
            target: "xdp".to_string(),
            engine: "DRAM",
            air: None,
            presumed: presumed.into_iter().map(str::to_string).collect(),
            timers: false,
            handler: None,
        });
    }
    lowered(path, program, object.maps, args.driver.unwrap_or_default(), args.emit.is_some())
}

/// A file's name without the folders it was compiled in.
fn short(file: &str) -> String {
    Path::new(file)
        .file_name()
        .map_or_else(|| file.to_string(), |name| name.to_string_lossy().into_owned())
}
