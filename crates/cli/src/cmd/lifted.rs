//! A lifted program against the object it came from, in the kernel's test run.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use nicforge_bound::equal::{self, Coverage};
use nicforge_driver::compare::{self, Agreement};
use nicforge_driver::{Failure, events};
use nicforge_ir::interp::Interp;
use nicforge_ir::{Entry, Input, InputEvent, Match, Op, Output, Program, TableId, Verified};
use nicforge_lift::Lifted;
use nicforge_run::xdp::{LARGEST_TEST_FRAME, Loader, Message, Original, Ran, SMALLEST_FRAME};

use super::asked;
use super::equal::Version;
use crate::args;

mod unsure;

use unsure::{Compared, Contents, Held, contents};

/// Packets at most that are made for a program.
pub const PACKETS: usize = 400;

/// Packets among them at most that are found for paths, their sizes, and the time for it.
const PATHS: usize = 100;
const PATH_SIZES: (u64, u64) = (60, 1500);
const PATH_TIME: Duration = Duration::from_millis(500);

/// Entries of a map at most for it to be compared: the kernel gives them one by one.
const LARGEST_MAP: u32 = 1 << 20;

/// Keys and values of tables.
type Wanted = Vec<(TableId, Vec<u8>, Vec<u8>)>;

/// An object, and what was made of one of its programs.
pub struct Subject {
    bytes: Vec<u8>,
    lifted: Lifted,
    program: Verified<Program>,
}

impl Subject {
    /// Reads an object and lifts a program of it.
    pub fn read(
        path: &Path,
        function: Option<String>,
        loader: &args::Loader,
    ) -> Result<Subject, Failure> {
        let fail = |message: String| Failure::user(format!("{}: {message}", path.display()));
        let bytes = std::fs::read(path).map_err(|e| fail(e.to_string()))?;
        let options = nicforge_driver::program::lift_options(path, function, loader);
        let mut lifted = nicforge_lift::lift(&bytes, &options).map_err(|e| fail(e.to_string()))?;
        let program = std::mem::replace(&mut lifted.program, Program::new(""));
        Ok(Subject { bytes, lifted, program: nicforge_driver::program::check(program)? })
    }

    /// The program that was made of it.
    pub fn program(&self) -> &Verified<Program> {
        &self.program
    }

    /// Packets that the program tells apart, as events: one for each of its first paths, and more.
    /// With the entries of maps that those paths need.
    pub fn events(&self, source: &args::Source) -> (Vec<InputEvent>, Wanted) {
        let (mut frames, wanted) = self.of_paths(source);
        frames.extend(nicforge_lift::packets(&self.lifted.source, PACKETS));
        frames.truncate(PACKETS);
        let event = |(seed, frame)| InputEvent {
            time_ns: 1000 * seed,
            seed,
            input: Input::Net { port: 0, frame },
        };
        ((0..).zip(frames).map(event).collect(), wanted)
    }

    /// Packets that go along the program's paths, as far as they are followed, and entries.
    fn of_paths(&self, source: &args::Source) -> (Vec<Vec<u8>>, Wanted) {
        let options = equal::Options { sizes: PATH_SIZES, time: PATH_TIME };
        let (mut frames, mut wanted) = (Vec::new(), Vec::new());
        let Ok(Version { side, .. }) = Version::read(source, &source.program) else {
            return (frames, wanted);
        };
        let table = |map: usize| {
            let own = &side.maps[map].name;
            let at = self.lifted.maps.iter().position(|name| name == own && !name.is_empty())?;
            Some(TableId::from_u32(at as u32))
        };
        for world in equal::worlds(&side, &options, PATHS, &Arc::default()).unwrap_or_default() {
            if !frames.contains(&world.packet) {
                frames.push(world.packet);
            }
            let entries = world.entries.into_iter();
            wanted
                .extend(entries.filter_map(|((map, key), value)| Some((table(map)?, key, value))));
        }
        (frames, wanted)
    }

    /// Puts the object into the kernel.
    fn load(&self) -> Result<Original, Failure> {
        let Lifted { function, is_tc, sizes, tail_calls, data, .. } = &self.lifted;
        let loader = Loader { is_tc: *is_tc, sizes, tail_calls, data };
        Original::load(&self.bytes, function, &loader).map_err(|e| Failure::of(e.fault(), e))
    }

    /// Entries that packets ask for, for maps that take any: those that the kernel takes, with the
    /// values that it has then, in which locks are zero.
    ///
    /// # Errors
    /// The interpreter cannot run an event; the kernel does not take the object.
    pub fn entries(
        &self,
        events: &[InputEvent],
        wanted: Wanted,
    ) -> Result<Vec<(TableId, Entry)>, Failure> {
        let Lifted { maps, settable, .. } = &self.lifted;
        let name = |table: TableId| {
            maps.get(table.as_u32() as usize).filter(|name| settable.contains(name))
        };
        let mut made =
            asked::entries(&self.program, events, wanted, |table| name(table).is_some())?;
        let kernel = self.load()?;
        // A map may be read-only for us.
        made.retain(|(table, entry)| {
            name(*table).is_some_and(|name| kernel.set(name, &key(entry), &entry.value).is_ok())
        });
        // LRU maps may have given up some of them by now.
        made.retain_mut(|(table, entry)| {
            let held = name(*table).and_then(|name| kernel.get(name, &key(entry)).ok().flatten());
            held.map(|value| entry.value = value).is_some()
        });
        Ok(made)
    }

    /// Basic blocks of the object that packets of the first port come through, and others; or why
    /// that is not known. With the object's lines.
    ///
    /// # Errors
    /// The object cannot be read.
    pub fn covered(
        &self,
        source: &args::Source,
        events: &[InputEvent],
        entries: &[(TableId, Entry)],
    ) -> Result<Result<(Coverage, Version), String>, Failure> {
        if self.lifted.is_tc {
            return Ok(Err("how far packets come is said of XDP programs only".to_string()));
        }
        let version = Version::read(source, &source.program)?;
        let frames = events.iter().filter_map(|event| match &event.input {
            Input::Net { port: 0, frame } => Some(frame.as_slice()),
            _ => None,
        });
        let held = entries.iter().filter_map(|(table, entry)| {
            let name = self.lifted.maps.get(table.as_u32() as usize)?;
            let map = version.side.maps.iter().position(|map| map.name == *name)?;
            Some(((map, key(entry)), entry.value.clone()))
        });
        Ok(match equal::coverage(&version.side, held, frames) {
            Ok(coverage) => Ok((coverage, version)),
            Err(fault) => Err(format!("how far packets come in the object is not known: {fault}")),
        })
    }

    /// Coverage in words: how many basic blocks, and source lines of those that no packet reaches.
    ///
    /// # Errors
    /// As of [`covered`](Self::covered).
    pub fn coverage(
        &self,
        source: &args::Source,
        events: &[InputEvent],
        entries: &[(TableId, Entry)],
    ) -> Result<String, Failure> {
        const SHOWN: usize = 5;
        let (Coverage { reached, missed }, version) = match self.covered(source, events, entries)? {
            Ok(covered) => covered,
            Err(reason) => return Ok(reason),
        };
        let lines = &version.side.program.lines;
        let mut places: Vec<String> = missed
            .iter()
            .filter_map(|at| lines.get(*at)?.as_ref())
            .map(|line| format!("{}:{}", line.file, line.line))
            .collect();
        places.dedup();
        let more = if places.len() > SHOWN { ", …" } else { "" };
        places.truncate(SHOWN);
        let not = if places.is_empty() {
            String::new()
        } else {
            format!("; not through {}{more}", places.join(", "))
        };
        let all = reached.len() + missed.len();
        Ok(format!("packets come through {} of {all} basic blocks{not}", reached.len()))
    }

    /// Why the kernel's test run does not take the program, if so.
    pub fn not_alone(&self) -> Option<String> {
        let section = &self.lifted.source.section;
        let mut parts = section.split('/');
        parts.next()?;
        let kind = parts.next().filter(|kind| matches!(*kind, "devmap" | "cpumap"))?;
        Some(format!(
            "was not run: section `{section}` is for programs in entries of a {kind}, which run \
             behind a redirect only"
        ))
    }

    /// Global data as the program has it, which the table holds as what is different.
    fn since_first(&self, name: &str, list: &mut Contents) {
        let Some((_, first)) = self.lifted.first.iter().find(|(own, _)| own == name) else {
            return;
        };
        let mut value = first.clone();
        if let Some((_, changed)) = list.first() {
            value.iter_mut().zip(changed).for_each(|(byte, by)| *byte ^= by);
        }
        list.clear();
        if value.iter().any(|byte| *byte != 0) {
            list.push((vec![0; 4], value));
        }
    }

    /// Leaves out bytes that the program never wrote; whether there are such.
    fn without_unwritten(&self, name: &str, lists: [&mut Contents; 2]) -> bool {
        let Some((_, bytes)) = self.lifted.unwritten.iter().find(|(own, _)| own == name) else {
            return false;
        };
        for (_, value) in lists.into_iter().flatten() {
            for at in bytes {
                if let Some(byte) = value.get_mut(*at as usize) {
                    *byte = 0;
                }
            }
        }
        true
    }

    /// True if the program has such an op.
    fn has(&self, such: impl Fn(&Op) -> bool) -> bool {
        let mut bodies = self.program.handlers.values().map(|handler| &handler.body);
        bodies.any(|body| body.insts.values().any(|inst| such(&inst.op)))
    }

    /// The kernel's different result.
    fn difference(&self, want: &[Output], got: &Ran) -> Option<String> {
        let (program, is_tc) = (&*self.program, self.lifted.is_tc);
        let aside =
            |output: &&Output| matches!(output, Output::Log { .. } | Output::HostMessage { .. });
        let leaves = want.iter().rev().find(|output| !aside(output));
        let (agree, frame) = if is_tc { by_tc(program, leaves) } else { by_xdp(program, leaves) };
        if !agree(got.verdict) {
            let name = verdict_name(is_tc, got.verdict);
            let list: Vec<String> = want.iter().map(|o| compare::describe(program, o)).collect();
            return Some(format!("the kernel says {name}, the lifted program {}", list.join(", ")));
        }
        if let Some(frame) = frame.filter(|frame| **frame != got.frame) {
            return Some(compare::frame_difference(frame, &got.frame));
        }
        got.messages.as_ref().and_then(|got| other_messages(want, got, self.lifted.fixed_messages))
    }

    /// Runs both and compares verdicts, packets and maps. Events by other ports than the first are
    /// left out: the kernel's test run knows one interface.
    pub fn judge(
        &self,
        events: &[InputEvent],
        entries: &[(TableId, Entry)],
    ) -> Result<Agreement, Failure> {
        let of = |e: nicforge_run::xdp::XdpError| Failure::of(e.fault(), e);
        let function = &self.lifted.function;
        let kernel = self.load()?;
        let names = &self.lifted.maps;
        let name = |table: TableId| {
            let name = names.get(table.as_u32() as usize).map(String::as_str);
            name.filter(|name| !name.is_empty())
        };
        for (table, entry) in entries {
            let Some(name) = name(*table) else { continue };
            match entry.value.split_at_checked(4) {
                Some((key, value)) if self.lifted.listed.iter().any(|own| own == name) => {
                    kernel.set(name, key, value).map_err(of)?;
                }
                _ => kernel.set(name, &key(entry), &entry.value).map_err(of)?,
            }
        }
        let mut interp = Interp::new(&self.program);
        events::fill(&mut interp, entries)?;
        let (mut compared, mut refused) = (Vec::new(), 0);
        for (nth, event) in events.iter().enumerate() {
            let Input::Net { port: 0, frame } = &event.input else { continue };
            if !(SMALLEST_FRAME..=LARGEST_TEST_FRAME).contains(&frame.len()) {
                continue;
            }
            let Some(got) = kernel.run(frame).map_err(of)? else {
                refused += 1;
                continue;
            };
            let fail = |e| Failure::user(format!("event {}: {e}", nth + 1));
            let want = interp.run(event).map_err(fail)?;
            let difference = self.difference(&want, &got);
            compared.push(Compared { nth, event, want, difference, is_sure: true });
        }
        let mut tables = Vec::new();
        for (table, def) in self.program.tables.iter() {
            let Some(name) = name(table) else { continue };
            if def.capacity > LARGEST_MAP {
                errln!(
                    "{function}: map `{name}` was not compared: it has {} entries",
                    def.capacity
                );
                continue;
            }
            let Some(mut got) = kernel.entries(name).map_err(of)? else { continue };
            let mut want = contents(&interp, table)?;
            self.since_first(name, &mut want);
            if self.without_unwritten(name, [&mut want, &mut got]) {
                errln!(
                    "{function}: bytes of map `{name}` were left out: the program never wrote them"
                );
            }
            tables.push(Held { table, name, want, got });
        }
        let draws = self.has(Op::draws);
        if draws || self.has(Op::reads_clock) {
            self.forget_unsure(entries, &mut compared, &mut tables)?;
        }
        if draws {
            self.ask_again(&kernel, &mut compared)?;
        }
        if refused > 0 {
            errln!(
                "{function}: {refused} packets were not compared: the kernel makes no socket \
                 buffer of them"
            );
        }
        let unsure = |compared: &[Compared]| compared.iter().filter(|one| !one.is_sure).count();
        let by_chance = unsure(&compared);
        if by_chance > 0 {
            errln!(
                "{function}: {by_chance} events were not compared: the time or random numbers \
                 decide them"
            );
        }
        self.forget_given_up(entries, &mut compared, &mut tables)?;
        let given_up = unsure(&compared) - by_chance;
        if given_up > 0 {
            errln!(
                "{function}: {given_up} events were not compared: they hang on entries that a \
                 full LRU map gave up"
            );
        }
        compared.retain(|one| one.is_sure);
        let mut differences: Vec<String> = compared.iter().filter_map(Compared::said).collect();
        let matching = compared.len() - differences.len();
        differences.truncate(SHOWN);
        let other: Vec<String> = tables.iter().filter_map(Held::difference).collect();
        let matching_tables = tables.len() - other.len();
        differences.extend(other);
        Ok(Agreement {
            events: compared.len(),
            matching,
            tables: tables.len(),
            matching_tables,
            given_up,
            differences,
        })
    }
}

/// Differences of events that are printed.
const SHOWN: usize = 5;

/// The key as the kernel has it: LPM tries put the prefix length first.
fn key(entry: &Entry) -> Vec<u8> {
    match &entry.matching {
        Match::Prefix(bits) => [&bits.to_le_bytes()[..], &entry.key].concat(),
        _ => entry.key.clone(),
    }
}

/// Which verdicts lead to an output, and the frame that it has then.
type Meant<'a> = (fn(u32) -> bool, Option<&'a Vec<u8>>);

fn by_xdp<'a>(program: &Program, leaves: Option<&'a Output>) -> Meant<'a> {
    match leaves {
        Some(Output::Drop { reason }) if program.reasons[*reason].text == "XDP_DROP" => {
            (|verdict| verdict == 1, None)
        }
        Some(Output::Drop { .. }) | None => (|verdict| verdict == 0 || verdict >= 4, None),
        Some(Output::Stack { frame }) => (|verdict| matches!(verdict, 2 | 4), Some(frame)),
        Some(Output::Send { port: 0, frame }) => (|verdict| matches!(verdict, 3 | 4), Some(frame)),
        Some(Output::Send { frame, .. } | Output::HostPacket { frame }) => {
            (|verdict| verdict == 4, Some(frame))
        }
        Some(_) => (|_| false, None),
    }
}

fn by_tc<'a>(program: &Program, leaves: Option<&'a Output>) -> Meant<'a> {
    match leaves {
        Some(Output::Drop { reason }) => match program.reasons[*reason].text.as_str() {
            "TC_ACT_SHOT" => (|verdict| verdict == 2, None),
            "TC_ACT_STOLEN" => (|verdict| verdict == 4, None),
            "TC_ACT_TRAP" => (|verdict| verdict == 8, None),
            _ => (|verdict| verdict == 7, None),
        },
        Some(Output::Stack { frame }) => (|verdict| !matches!(verdict, 2 | 4 | 7 | 8), Some(frame)),
        Some(Output::Send { frame, .. }) => (|verdict| verdict == 7, Some(frame)),
        Some(_) | None => (|_| false, None),
    }
}

fn verdict_name(is_tc: bool, verdict: u32) -> &'static str {
    const XDP: [&str; 5] = ["XDP_ABORTED", "XDP_DROP", "XDP_PASS", "XDP_TX", "XDP_REDIRECT"];
    const TC: [&str; 9] = [
        "TC_ACT_OK",
        "TC_ACT_RECLASSIFY",
        "TC_ACT_SHOT",
        "TC_ACT_PIPE",
        "TC_ACT_STOLEN",
        "TC_ACT_QUEUED",
        "TC_ACT_REPEAT",
        "TC_ACT_REDIRECT",
        "TC_ACT_TRAP",
    ];
    let names: &[&str] = if is_tc { &TC } else { &XDP };
    names.get(verdict as usize).copied().unwrap_or("another verdict")
}

/// Which message to the host is not the same.
fn other_messages(want: &[Output], got: &[Message], fixed: bool) -> Option<String> {
    let want: Vec<&Vec<u8>> = want
        .iter()
        .filter_map(|output| match output {
            Output::HostMessage { bytes } => Some(bytes),
            _ => None,
        })
        .collect();
    let same = |(want, got): (&&Vec<u8>, &Message)| got.is(want, fixed);
    if want.len() != got.len() {
        let (want, got) = (want.len(), got.len());
        return Some(format!("the kernel sent {got} messages, the lifted program {want}"));
    }
    let other = want.iter().zip(got).position(|pair| !same(pair))?;
    Some(format!("message {other}: {:x?}, in the kernel {:x?}", want[other], got[other].bytes))
}
