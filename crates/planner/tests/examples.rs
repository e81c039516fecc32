//! Every example, cut by every objective at three balances and again into up to four stages: on its
//! own traffic, the interpreter gives what the uncut program gives.

mod common;

use std::path::{Path, PathBuf};

use common::{behaviour, cut_with, difference, shared_table, text};
use nicforge_ir::{Entry, InputEvent, Interp, Program, TableId, Verified, verify};
use nicforge_planner::cut::{self, Cut, NoCut, Objective, cursor_at_event, prepare};
use nicforge_run::control;
use nicforge_run::pcap::{self, SourceKind};

/// Events of an example that are run for each of its cuts; the captures repeat themselves sooner.
const EVENTS: usize = 1000;

struct Example {
    name: String,
    program: Verified<Program>,
    events: Vec<InputEvent>,
    entries: Vec<(TableId, Entry)>,
}

impl Example {
    fn load(folder: &Path) -> Example {
        let name = folder.file_name().expect("a folder has a name").to_string_lossy().into_owned();
        let options = nicforge_frontend::Options::new(root().join("runtime/include"));
        let output = nicforge_frontend::compile(&folder.join(format!("{name}.c")), &options)
            .unwrap_or_else(|diagnostics| panic!("{}", diagnostics.render(false)));
        let program = verify(output.program).unwrap_or_else(|errors| panic!("{name}: {errors:?}"));
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
        let mut events = pcap::merge(&captures);
        events.truncate(EVENTS);
        Example { name, program, events, entries }
    }

    fn fill(&self, interp: &mut Interp) {
        control::apply(interp, &self.entries).unwrap_or_else(|e| panic!("{}: {e}", self.name));
    }
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn examples() -> Vec<Example> {
    let folder = root().join("examples");
    let entries =
        std::fs::read_dir(&folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
    let mut folders: Vec<PathBuf> =
        entries.flatten().map(|e| e.path()).filter(|p| p.join("traffic.py").is_file()).collect();
    folders.sort();
    assert!(folders.len() >= 15, "only {} examples in {}", folders.len(), folder.display());
    folders.iter().map(|folder| Example::load(folder)).collect()
}

/// What a cut is, for failures and for people who read the test's output.
fn describe(example: &str, cut: &Cut, objective: Objective, balance: f64) -> String {
    let program = &cut.program;
    let params: Vec<String> = program.events[cut.event]
        .params
        .iter()
        .map(|param| format!("{}: {}", param.name, program.type_name(param.ty)))
        .collect();
    format!(
        "{example} {} {balance}: {} of {} carry {} bytes ({})",
        objective.name(),
        program.handlers[cut.downstream].name,
        program.handlers.len(),
        cut.bytes,
        params.join(", ")
    ) + &format!(
        ", shares {:.2} and {:.2}, cursor {:?}",
        cut.shares.0,
        cut.shares.1,
        cursor_at_event(program, cut.event)
    )
}

#[test]
fn cut_examples_mean_the_same() {
    let (mut cuts, mut not_cut) = (0, Vec::new());
    for example in examples() {
        let fill = |interp: &mut Interp| example.fill(interp);
        let want = behaviour(&example.program, &example.events, &fill);
        let prepared = prepare(&example.program).unwrap();
        for objective in Objective::ALL {
            for balance in [0.25, 0.5, 0.75] {
                let mut current = prepared.clone();
                let mut next =
                    current.event_named("net_recv").and_then(|e| current.handler_of(e)).unwrap();
                for stage in 1..4 {
                    // Headers may be read again in some of the cuts.
                    let reread_bytes = (balance == 0.5 || stage == 2).then_some(2);
                    let options = cut::Options {
                        objective,
                        balance,
                        reread_bytes,
                        ..cut::Options::default()
                    };
                    let cut = match cut_with(&current, next, &options) {
                        Ok(cut) => cut,
                        Err(NoCut::Broken { error, .. }) => panic!("{}: {error}", example.name),
                        Err(why) => {
                            if stage == 1 {
                                not_cut.push(format!(
                                    "{} {}: {why}",
                                    example.name,
                                    objective.name()
                                ));
                            }
                            break;
                        }
                    };
                    cuts += 1;
                    let what = describe(&example.name, &cut, objective, balance);
                    println!("{what}");
                    if let Some(wrong) = difference(&want, &cut.program, &example.events, &fill)
                        .or_else(|| shared_table(&cut.program))
                    {
                        panic!("{what}: {wrong}\nbefore\n{}", text(&current));
                    }
                    // Upstream and downstream in turn.
                    next = if stage % 2 == 1 { cut.downstream } else { cut.upstream };
                    current = cut.program;
                }
            }
        }
    }
    not_cut.dedup();
    println!("{cuts} cuts; not cut:\n{}", not_cut.join("\n"));
    assert!(cuts >= 150, "only {cuts} cuts");
}
