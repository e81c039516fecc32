//! Many generated programs, one after the other: written to files, compiled together as plain C,
//! compared with the interpreter, then run on targets.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use nicforge_frontend::Options;
use nicforge_ir::{Program, Severity, Verified, verify};
use nicforge_run::compile::Effort;
use nicforge_run::units;

use crate::oracle::{self, Source};
use crate::programs::{Generated, entries, events, generate};
use crate::targets::{Case, Subject, Verdict, ahead, effort, judge};
use crate::{root, threads};

/// Events that each program is run on.
pub const EVENTS: usize = 100;
/// Programs that are compiled as plain C together.
const TOGETHER: u64 = 100;

/// Longest time for making one program small.
const REDUCING: Duration = Duration::from_secs(60);

/// What is to be run.
#[derive(Clone, Debug)]
pub struct Campaign {
    pub first: u64,
    pub count: u64,
    /// Names, and of how many programs each takes one.
    pub targets: Vec<(String, u64)>,
}

/// Which reasons of a report.
type Reasons<'r> = dyn Fn(&mut Report) -> &mut BTreeMap<(String, String), Vec<u64>> + 'r;

/// What came of it.
#[derive(Debug, Default)]
pub struct Report {
    /// By judge (`front end`, `oracle`, a target): programs, and time they took.
    pub judged: BTreeMap<String, (u64, Duration)>,
    /// By target and reason: seeds that it refused; whose program asks for what the target has not;
    /// of which nothing could be compared.
    pub refused: BTreeMap<(String, String), Vec<u64>>,
    pub lacks: BTreeMap<(String, String), Vec<u64>>,
    pub left: BTreeMap<(String, String), Vec<u64>>,
    /// Seed, judge, what is wrong.
    pub wrong: Vec<(u64, String, String)>,
}

impl Report {
    fn count(&mut self, judge: &str, count: u64, time: Duration) {
        let (programs, sum) = self.judged.entry(judge.to_string()).or_default();
        *programs += count;
        *sum += time;
    }

    /// Takes another one in.
    pub fn add(&mut self, other: Report) {
        for (judge, (programs, time)) in other.judged {
            self.count(&judge, programs, time);
        }
        for (mine, theirs) in [
            (&mut self.refused, other.refused),
            (&mut self.lacks, other.lacks),
            (&mut self.left, other.left),
        ] {
            for (kind, seeds) in theirs {
                mine.entry(kind).or_default().extend(seeds);
            }
        }
        self.wrong.extend(other.wrong);
    }

    /// Programs of a judge under some reason.
    pub fn counted(reasons: &BTreeMap<(String, String), Vec<u64>>, judge: &str) -> u64 {
        reasons.iter().filter(|((of, _), _)| of == judge).map(|(_, seeds)| seeds.len() as u64).sum()
    }

    /// Programs that were compared on a target or by another judge.
    pub fn compared(&self, judge: &str) -> u64 {
        let not =
            [&self.refused, &self.lacks, &self.left].map(|reasons| Report::counted(reasons, judge));
        self.judged.get(judge).map_or(0, |(count, _)| *count) - not.iter().sum::<u64>()
    }

    /// A table of judges, then the reasons.
    pub fn lines(&self) -> Vec<String> {
        let head = "judge             compared  refused  lacks   left  ms each  disagree";
        let mut lines = vec![head.to_string()];
        for (judge, (count, time)) in &self.judged {
            let each = time.as_secs_f64() * 1e3 / (*count).max(1) as f64;
            let [refused, lacks, left] = [&self.refused, &self.lacks, &self.left]
                .map(|reasons| Report::counted(reasons, judge));
            let wrong = self.wrong.iter().filter(|(_, of, _)| of == judge).count();
            let compared = self.compared(judge);
            lines.push(format!(
                "{judge:<16} {compared:>9} {refused:>8} {lacks:>6} {left:>6} {each:>8.0} {wrong:>9}"
            ));
        }
        for (how, reasons) in
            [("refused", &self.refused), ("lacks", &self.lacks), ("left", &self.left)]
        {
            for ((target, reason), seeds) in reasons {
                lines.push(format!(
                    "{target}, {how} {}: {reason} (seed {})",
                    seeds.len(),
                    seeds[0]
                ));
            }
        }
        lines
    }
}

/// How the front end reads programs.
fn options() -> Options {
    let mut options = Options::new(root().join("runtime/include"));
    options.clang_args.push(format!("-I{}", root().join("tests/oracle").display()));
    options
}

/// A program's αIR.
///
/// # Errors
/// What the front end says, or that it crashed.
pub fn compile(path: &Path) -> Result<Verified<Program>, String> {
    let options = options();
    let compiled = std::panic::catch_unwind(|| nicforge_frontend::compile(path, &options));
    let output =
        compiled.map_err(|_| "the front end crashed".to_string())?.map_err(|mut found| {
            found.diagnostics.retain(|diagnostic| diagnostic.severity == Severity::Error);
            found.render(false)
        })?;
    verify(output.program)
        .map_err(|errors| format!("the verifier refuses what the front end made: {}", errors[0]))
}

/// Where a target's reason for refusing differs between programs only by names and places.
fn kind_of(reason: &str) -> String {
    let line = reason.lines().next().unwrap_or_default();
    let line = line
        .split_once(".c:")
        .map_or(line, |(_, rest)| rest.split_once(": ").map_or(rest, |(_, what)| what));
    line.chars().map(|c| if c.is_ascii_digit() { '#' } else { c }).take(160).collect()
}

/// What is wrong with a program's text for one judge; nothing if it is right, refused, or no
/// program.
fn wrong_with(text: &str, seed: u64, judge_name: &str) -> Option<String> {
    match verdict(text, seed, judge_name) {
        Verdict::Wrong(what) => Some(what),
        // Of the front end, an error is what is looked for.
        Verdict::Refused(what) if judge_name == "front end" => Some(what),
        _ => None,
    }
}

/// The verdict of one judge on a program's text.
pub fn verdict(text: &str, seed: u64, judge_name: &str) -> Verdict {
    let left = |error: std::io::Error| Verdict::Left(error.to_string());
    let folder = match tempfile::tempdir() {
        Ok(folder) => folder,
        Err(error) => return left(error),
    };
    let path = folder.path().join("program.c");
    if let Err(error) = std::fs::write(&path, text) {
        return left(error);
    }
    let program = match compile(&path) {
        Ok(program) => program,
        Err(what) => return Verdict::Refused(what),
    };
    // A reducer may leave a timer that ticks far too often.
    if program.events.values().any(|event| event.period.is_some_and(|period| period < 10_000)) {
        return Verdict::Left("its timer ticks too often".to_string());
    }
    // Or a program without the handler of packets.
    let takes_packets = |event| program.handler_of(event).is_some();
    if !program.event_named("net_recv").is_some_and(takes_packets) {
        return Verdict::Left("it takes no packets".to_string());
    }
    let (entries, events) = (entries(&program, seed), events(&program, seed, EVENTS));
    match judge_name {
        "front end" => Verdict::Same,
        "oracle" => {
            let source = Source { path, names: Vec::new() };
            let mut built = match oracle::build(&[source]) {
                Ok(built) => built,
                Err(error) => return Verdict::Refused(error.to_string()),
            };
            oracle::difference(&program, &mut built[0], &entries, &events)
                .map_or(Verdict::Same, Verdict::Wrong)
        }
        target => {
            let (program, effort) = (Subject::new(program), effort(seed));
            let case = Case { program: &program, entries: &entries, events: &events, effort };
            let verdict =
                std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| judge(target, &case)));
            verdict.unwrap_or_else(|_| Verdict::Wrong("it crashed".into()))
        }
    }
}

/// The kind of a fault: a reducer must not slip from one to another. Messages of ours up to their
/// places, else what differs.
fn fault(what: &str) -> String {
    if what.contains("error") || what.contains("crashed") {
        let line = what.lines().next().unwrap_or_default();
        return line.rsplit(": ").next().unwrap_or_default().to_string();
    }
    what.chars().take_while(char::is_ascii_alphabetic).collect()
}

/// A smaller program with the same fault, and what is wrong with it.
pub fn reduced(seed: u64, judge_name: &str, what: &str) -> (String, String) {
    let kind = fault(what);
    let end = Instant::now() + REDUCING;
    let same =
        |text: &str| wrong_with(text, seed, judge_name).is_some_and(|found| fault(&found) == kind);
    let fails = |text: &str| Instant::now() < end && same(text);
    let text = generate(seed).text;
    if !fails(&text) {
        return (text, what.to_string());
    }
    let small = crate::reduce::reduce(&text, fails);
    let what = wrong_with(&small, seed, judge_name).unwrap_or_default();
    (small, what)
}

impl Campaign {
    /// Runs it, on as many threads as there are CPUs.
    pub fn run(&self) -> Report {
        let report = Mutex::new(Report::default());
        let folder = tempfile::tempdir().expect("a temporary folder");
        let mut from = self.first;
        while from < self.first + self.count {
            let to = (from + TOGETHER).min(self.first + self.count);
            self.batch(from..to, folder.path(), &report);
            from = to;
        }
        report.into_inner().expect("no thread crashed")
    }

    fn batch(&self, seeds: std::ops::Range<u64>, folder: &Path, report: &Mutex<Report>) {
        let add =
            |change: &dyn Fn(&mut Report)| change(&mut report.lock().expect("no thread crashed"));
        let wrong = |seed: u64, judge: &str, what: String| {
            add(&|report| report.wrong.push((seed, judge.to_string(), what.clone())));
        };
        let seeds: Vec<u64> = seeds.collect();
        let path = |seed: &u64| folder.join(format!("program_{seed}.c"));
        for seed in &seeds {
            std::fs::write(path(seed), generate(*seed).text).expect("a temporary file");
        }
        let shares: Vec<_> = seeds.chunks(seeds.len().div_ceil(threads()).max(1)).collect();
        each(&shares, |share| {
            let start = Instant::now();
            let paths: Vec<PathBuf> = share.iter().map(path).collect();
            nicforge_frontend::ahead(&paths, &options()).expect("clang and pipes");
            add(&|report| report.count("front end", 0, start.elapsed()));
        });
        let compiled: Vec<Option<(PathBuf, Subject)>> = each(&seeds, |seed| {
            let path = path(seed);
            let start = Instant::now();
            let program = compile(&path);
            add(&|report| report.count("front end", 1, start.elapsed()));
            match program {
                Ok(program) => Some((path, Subject::new(program))),
                Err(what) => {
                    wrong(*seed, "front end", what);
                    None
                }
            }
        });
        let programs: Vec<(u64, PathBuf, Subject)> = seeds
            .iter()
            .zip(compiled)
            .filter_map(|(seed, c)| c.map(|(path, p)| (*seed, path, p)))
            .collect();
        let start = Instant::now();
        let source = |(_, path, _): &(u64, PathBuf, Subject)| Source {
            path: path.clone(),
            names: Generated::names(),
        };
        let sources: Vec<Source> = programs.iter().map(source).collect();
        let mut oracles =
            oracle::build(&sources).unwrap_or_else(|e| panic!("clang refuses plain C: {e}"));
        for ((seed, _, program), oracle) in programs.iter().zip(&mut oracles) {
            let (entries, events) = (entries(program, *seed), events(program, *seed, EVENTS));
            if let Some(what) = oracle::difference(program, oracle, &entries, &events) {
                wrong(*seed, "oracle", what);
            }
        }
        add(&|report| report.count("oracle", programs.len() as u64, start.elapsed()));
        // What targets need is compiled by a process for each CPU.
        let mut shares: Vec<(&str, Effort, Vec<&Subject>)> = Vec::new();
        for (target, of) in &self.targets {
            for wanted in [Effort::Full, Effort::Little] {
                let taken = programs
                    .iter()
                    .filter(|(seed, ..)| seed % of == 0 && effort(*seed) == wanted)
                    .map(|(.., program)| program);
                let taken: Vec<_> = taken.collect();
                let part = taken.len().div_ceil(threads()).max(1);
                shares.extend(
                    taken.chunks(part).map(|part| (target.as_str(), wanted, part.to_vec())),
                );
            }
        }
        each(&shares, |(target, effort, programs)| {
            let start = Instant::now();
            // Whatever fails here fails again, and is told, where its program is judged.
            let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                ahead(target, programs, *effort);
            }));
            add(&|report| report.count(target, 0, start.elapsed()));
        });
        each(&programs, |(seed, _, program)| {
            let (entries, events) = (entries(program, *seed), events(program, *seed, EVENTS));
            let effort = effort(*seed);
            let case = Case { program, entries: &entries, events: &events, effort };
            for (target, _) in self.targets.iter().filter(|(_, of)| seed % of == 0) {
                let start = Instant::now();
                let verdict =
                    std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| judge(target, &case)))
                        .unwrap_or_else(|_| Verdict::Wrong("it crashed".into()));
                add(&|report| report.count(target, 1, start.elapsed()));
                let note = |of: &Reasons, why: &str| {
                    add(&|report| {
                        of(report).entry((target.clone(), kind_of(why))).or_default().push(*seed);
                    });
                };
                match verdict {
                    Verdict::Same => {}
                    Verdict::Refused(why) => note(&|report| &mut report.refused, &why),
                    Verdict::Lacks(why) => note(&|report| &mut report.lacks, &why),
                    Verdict::Left(why) => note(&|report| &mut report.left, &why),
                    Verdict::Wrong(what) => wrong(*seed, target, what),
                }
            }
        });
        units::forget();
    }
}

/// Does something with each, as many at a time as there are CPUs; the results in order.
pub fn each<T: Sync, R: Send>(all: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let (next, done) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..threads() {
            scope.spawn(|| {
                while let Some(one) = {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    all.get(at).map(|one| (at, one))
                } {
                    let result = work(one.1);
                    done.lock().expect("no thread crashed").push((one.0, result));
                }
            });
        }
    });
    let mut done = done.into_inner().expect("no thread crashed");
    done.sort_by_key(|(at, _)| *at);
    done.into_iter().map(|(_, result)| result).collect()
}
