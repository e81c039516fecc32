//! The translator of Linux 6.1 as a judge: the NFP instructions it makes of a program, beside ours.
//!
//! `tests/nfp_translator/build.sh` builds it from Debian's package. What it asks of the verifier,
//! registers' states before each instruction, comes from our own analysis (`ebpf::kinds`), so this
//! judges the translation, and that only. `NICFORGE_NFP_PROGRAMS` and `NICFORGE_NFP_SEED` set how
//! many random programs and from which seed; files in `NICFORGE_NFP_OBJECTS` are compared, too.
//! With `NICFORGE_NFP_WHY` the driver says why it refuses.

mod decode;
mod programs;

use std::io::{Read, Write};
use std::path::Path;
use std::process::{Command, Stdio};

use nicforge_isa::ebpf::kinds::{self, Kind, State};
use nicforge_isa::ebpf::{Insn, upper_read};
use nicforge_isa::lower::{self, Driver};
use nicforge_isa::nfp;
use nicforge_isa::object::{self, Map, Program};

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

fn put(job: &mut Vec<u8>, words: &[u32]) {
    job.extend(words.iter().flat_map(|word| word.to_le_bytes()));
}

/// A register as the judge reads it.
fn register(job: &mut Vec<u8>, kind: Kind) {
    let (kind, off, id, map, range) = match kind {
        Kind::Nothing | Kind::Mixed => (0, 0, 0, u32::MAX, (0, 0)),
        Kind::Number(least, most) => (1, 0, 0, u32::MAX, (least, most)),
        Kind::Context(off) => (2, off, 0, u32::MAX, (0, 0)),
        Kind::Map(map) => (3, 0, 0, map, (0, 0)),
        Kind::Value(map) => (4, 0, 0, map, (0, 0)),
        Kind::Stack(off) => (6, off, 0, u32::MAX, (0, 0)),
        Kind::Packet { id, offset } => (8, offset, id, u32::MAX, (0, 0)),
        Kind::PacketEnd => (9, 0, 0, u32::MAX, (0, 0)),
    };
    put(job, &[kind, off as i32 as u32, id, map]);
    let (least, most): (u64, u64) = range;
    let differ = least ^ most;
    let open = if differ == 0 { 0 } else { u64::MAX >> differ.leading_zeros() };
    for value in [least & !open, open, least, most] {
        job.extend(value.to_le_bytes());
    }
}

fn job(program: &Program, maps: &[Map]) -> Vec<u8> {
    let insns = &program.insns;
    let states = kinds::kinds(insns);
    let visited: Vec<(usize, &State)> =
        states.iter().enumerate().filter_map(|(at, state)| Some((at, state.as_ref()?))).collect();
    let mut job = Vec::new();
    let depth = lower::depth(insns, &states) as u32;
    put(&mut job, &[insns.len() as u32, depth, visited.len() as u32, maps.len() as u32]);
    for Insn { code, dst, src, off, imm } in insns {
        job.extend([*code, *dst | *src << 4]);
        job.extend(off.to_le_bytes());
        job.extend(imm.to_le_bytes());
    }
    let read = upper_read(insns);
    job.extend(insns.iter().zip(&read).map(|(insn, read)| (read >> insn.dst & 1) as u8));
    put(&mut job, &maps.iter().map(|map| map.value_size).collect::<Vec<_>>());
    for (at, state) in visited {
        put(&mut job, &[at as u32, 0]);
        state.regs.iter().for_each(|kind| register(&mut job, *kind));
    }
    job
}

/// What the judge makes of programs, in their order, without those it refuses; nothing if it died.
fn judge(path: &Path, jobs: &[Vec<u8>]) -> Option<Vec<Option<Vec<u64>>>> {
    let mut child = Command::new(path)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(if std::env::var_os("NICFORGE_NFP_WHY").is_some() {
            Stdio::inherit()
        } else {
            Stdio::null()
        })
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let mut stdout = child.stdout.take().unwrap();
    let answers = std::thread::scope(|scope| {
        // One that dies says so by its status.
        scope.spawn(move || jobs.iter().try_for_each(|job| stdin.write_all(job)));
        let mut read = |bytes: usize| {
            let mut found = vec![0; bytes];
            stdout.read_exact(&mut found).map(|()| found)
        };
        let answers = jobs.iter().map(|_| {
            let head = read(8).ok()?;
            let word = |at: usize| u32::from_le_bytes(head[at..at + 4].try_into().unwrap());
            let code = read(8 * word(4) as usize).ok()?;
            let words = code.chunks(8).map(|bytes| u64::from_le_bytes(bytes.try_into().unwrap()));
            Some((word(0) == 0).then(|| words.collect()))
        });
        answers.collect()
    });
    child.wait().unwrap();
    answers
}

#[derive(Default)]
struct Tally {
    same: usize,
    refused_by_both: usize,
    ours_only: usize,
    theirs_only: usize,
    instructions: usize,
    different: Vec<String>,
}

impl Tally {
    fn compare(&mut self, name: &str, program: &Program, maps: &[Map], theirs: Option<Vec<u64>>) {
        let ours = lower::lower_as(program, maps, Driver::Linux61);
        match (ours, theirs) {
            (Err(_), None) => self.refused_by_both += 1,
            (Ok(_), None) => self.ours_only += 1,
            (Err(error), Some(_)) => {
                self.theirs_only += 1;
                println!("{name}: refused here only: {error}");
            }
            (Ok(ours), Some(theirs)) => {
                self.instructions += theirs.len();
                let decoded: Vec<Option<nfp::Insn>> =
                    theirs.iter().map(|word| decode::decode(*word)).collect();
                let text = |insn: Option<&nfp::Insn>| insn.map_or("nothing".to_string(), nfp::text);
                let differs = |at: &usize| {
                    decoded.get(*at).copied().flatten().as_ref() != ours.insns.get(*at)
                };
                let branch = |at: &usize| {
                    matches!(ours.insns.get(*at).map(|insn| insn.op), Some(nfp::Op::Branch { .. }))
                };
                // A branch may differ by what is different behind it.
                let all = || 0..decoded.len().max(ours.insns.len());
                let first = all().filter(differs).find(|at| !branch(at)).or(all().find(differs));
                match first {
                    None => self.same += 1,
                    Some(at) => self.different.push(format!(
                        "{name}: instruction .{at} is {}, the driver's is {} ({:#x}); from eBPF instruction {:?} {:?}",
                        text(ours.insns.get(at)),
                        text(decoded.get(at).copied().flatten().as_ref()),
                        theirs.get(at).copied().unwrap_or(0),
                        ours.origin.get(at),
                        ours.origin.get(at).map(|at| program.insns[*at as usize]),
                    )),
                }
            }
        }
    }

    fn print(&self, what: &str) {
        println!(
            "{what}: {} the same ({} instructions), {} different; refused by both {}, by the driver only {}, here only {}",
            self.same,
            self.instructions,
            self.different.len(),
            self.refused_by_both,
            self.ours_only,
            self.theirs_only
        );
        self.different.iter().take(20).for_each(|line| println!("{line}"));
    }
}

fn built() -> std::path::PathBuf {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/nfp_translator/build.sh");
    let built = Command::new(script).stderr(Stdio::inherit()).output().unwrap();
    assert!(built.status.success(), "the translator cannot be built here");
    String::from_utf8(built.stdout).unwrap().trim().into()
}

#[test]
#[ignore = "needs Debian's linux-source-6.1; `make soak` runs it"]
fn the_drivers_instructions() {
    let path = built();
    let (count, seed) = (number("NICFORGE_NFP_PROGRAMS", 10_000), number("NICFORGE_NFP_SEED", 1));
    println!("{count} programs from seed {seed}");
    let maps = programs::maps();
    let mut tally = Tally::default();
    let seeds: Vec<u64> = (seed..seed + count).collect();
    for seeds in seeds.chunks(500) {
        let programs: Vec<Program> = seeds
            .iter()
            .map(|seed| programs::program(&mut nicforge_util::Random::new(*seed)))
            .collect();
        let jobs: Vec<Vec<u8>> = programs.iter().map(|program| job(program, &maps)).collect();
        let judged = judge(&path, &jobs).expect("the judge ended early");
        for ((seed, program), theirs) in seeds.iter().zip(&programs).zip(judged) {
            tally.compare(&format!("seed {seed}"), program, &maps, theirs);
        }
    }
    tally.print("random programs");
    let mut objects = Tally::default();
    let list = std::env::var("NICFORGE_NFP_OBJECTS").unwrap_or_default();
    for file in list.split_whitespace() {
        let Ok(object) = object::parse(&std::fs::read(file).unwrap()) else { continue };
        for program in object.programs {
            // Frames of functions called are not given to the judge.
            if program.insns.iter().any(|insn| insn.code == 0x85 && insn.src == 1) {
                println!("{file} {}: left out: it calls BPF functions", program.name);
                continue;
            }
            // It dies of programs that the kernel's verifier refuses before.
            let judged = judge(&path, &[job(&program, &object.maps)]);
            let theirs = judged.and_then(|mut answers| answers.remove(0));
            objects.compare(&format!("{file} {}", program.name), &program, &object.maps, theirs);
        }
    }
    objects.print("objects");
    assert!(tally.same as u64 >= count / 2, "too few programs were compared");
    assert!(tally.different.is_empty() && objects.different.is_empty());
}
