//! Events that come back from the host to stages of the NIC, where queues wait when they are full:
//! nothing is lost, no queue is ever full, and every comparison with the interpreter holds; what
//! could wait for itself is refused.

use nicforge_codegen::dpdk::{Pipeline, generate};
use nicforge_codegen::nfp::{Engines, Placement};
use nicforge_codegen::{LineStyle, Unsupported};
use nicforge_ir::text::{PrintOptions, parse, print};
use nicforge_ir::{Program, TableId, Verified, verify};
use nicforge_planner::instance::Config;
use nicforge_planner::mapping::Goal;
use nicforge_planner::search::{Limits, search};
use nicforge_run::dpdk::{DpdkProgram, DpdkRun, Ports, verify_apart, verify_dpdk};
use nicforge_run::nfp::EnginesProgram;
use nicforge_tests::dpdk_is_missing;
use nicforge_tests::pipes::{endless, program, stage};

/// What comes back goes to the stage that packets enter by, or to one behind it.
fn pipeline(program: &Program, entry: bool) -> Pipeline {
    let mut stages = vec![
        stage(program, &["net_recv"], 1, false),
        stage(program, &["ask", "displace"], 1, false),
    ];
    let near = stage(program, &["answer", "learn"], 1, false);
    if entry {
        stages[0].handlers.extend(near.handlers);
    } else {
        stages.insert(1, near);
        stages[0].replicas = 2;
    }
    Pipeline { stages, steering: Vec::new(), ordered_output: false, context: Default::default() }
}

/// Packets, answers, learned lines and displaced ones, as the tables have counted them.
fn counted(program: &Program, run: &DpdkRun) -> [u64; 4] {
    let table = |name: &str| -> TableId {
        program.table_named(name).unwrap_or_else(|| panic!("no table {name}"))
    };
    let count = |name: &str, key: u32| {
        let entry = run.tables[&table(name)].iter().find(|entry| entry.key == key.to_le_bytes());
        let value = &entry.unwrap_or_else(|| panic!("no {name}[{key}]")).value;
        u64::from_le_bytes(value[..8].try_into().unwrap_or_default())
    };
    [count("far", 1), count("near", 0), count("near", 1), count("far", 2)]
}

/// As fast as it goes; then a worker dies, which ends the run.
#[test]
fn nothing_is_lost_and_no_queue_is_ever_full() {
    if dpdk_is_missing() {
        return;
    }
    let program = program("round");
    for (entry, apart) in [(true, false), (false, false), (true, true)] {
        let app = DpdkProgram::new(&program, &pipeline(&program, entry));
        let app = if apart { app.and_then(DpdkProgram::apart) } else { app };
        let app = app.unwrap_or_else(|e| panic!("{e}"));
        let dir = tempfile::tempdir().unwrap_or_else(|e| panic!("{e}"));
        let out =
            format!("{},tx_pcap={}", endless(dir.path()), dir.path().join("out.pcap").display());
        let ports = Ports { vdevs: vec![out], limit: 3_000, longest_frame: 1514, halt: None };
        let run = app.run_ports(&ports, &[]).unwrap_or_else(|e| panic!("{e}"));
        let received = run.stats.received;
        assert!(received >= 3_000);
        assert_eq!(
            (run.stats.sent.iter().sum(), run.stats.losses()),
            (received, vec![]),
            "{:?}",
            run.stats
        );
        assert_eq!(counted(&program, &run), [received, received, 8 * received, 8 * received]);
        let full: u64 = run.stats.workers.iter().map(|worker| worker.full).sum();
        assert!(apart || full == 0, "{:?}", run.stats);
        if entry && !apart {
            (0..2).for_each(|worker| {
                dies(&app, Ports { halt: Some((worker, 200)), ..ports.clone() })
            });
        }
    }
}

/// What was in flight is said.
fn dies(app: &DpdkProgram, ports: Ports) {
    let run = app.run_ports(&ports, &[]).unwrap_or_else(|e| panic!("{e}"));
    let lost: u64 = run.stats.workers.iter().map(|worker| worker.lost).sum();
    let (sent, left) =
        (run.stats.sent.iter().sum::<u64>(), run.stats.stranded + run.stats.stranded_events);
    assert!(run.stats.received < ports.limit && left > 0, "{:?}", run.stats);
    // Events without a packet may be lost, too.
    assert!(sent + run.stats.stranded + lost >= run.stats.received, "{:?}", run.stats);
}

#[test]
fn comparisons_hold() {
    let program = program("round");
    let events = nicforge_ir::generate::events(5, 100);
    let ways = [pipeline(&program, true), pipeline(&program, false)];
    let engines = EnginesProgram::new(&program, &ways[1], &Placement::default(), Engines::Threads);
    let engines = engines.unwrap_or_else(|e| panic!("{e}"));
    let compared = engines.verify(&program, &[], &events).map(|(_, different)| different);
    assert_eq!(compared.unwrap_or_else(|e| panic!("{e}")), []);
    if dpdk_is_missing() {
        return;
    }
    let compared =
        verify_dpdk(&program, &program, &ways[1], &[], &events).map(|(_, different)| different);
    assert_eq!(compared.unwrap_or_else(|e| panic!("{e}")), []);
    let compared = verify_apart(&program, &program, &ways[0], None, &[], &events)
        .map(|(_, different)| different);
    assert_eq!(compared.unwrap_or_else(|e| panic!("{e}")), []);
}

fn changed(from: &str, to: &str) -> Verified<Program> {
    let text = print(&program("round"), PrintOptions::default());
    assert!(text.contains(from), "{text}");
    let program = parse(&text.replace(from, to)).unwrap_or_else(|e| panic!("{e}"));
    verify(program).unwrap_or_else(|e| panic!("{}", e[0]))
}

const AGAIN: (&str, &str) =
    ("%u: u1 = update far[%key], %more\n  return", "generate learn(%first, %more)\n  return");

/// What may wait for itself, has no bound, or wants an order that nobody can restore.
#[test]
fn pipelines_that_could_wait_for_themselves_are_refused() {
    let why = |program: &Verified<Program>, pipeline: &Pipeline| -> String {
        let refused = generate(program, pipeline, LineStyle::Comments).map(|_| ());
        refused
            .err()
            .and_then(|list: Vec<Unsupported>| Some(list.first()?.message.clone()))
            .unwrap_or_default()
    };
    let plain = program("round");
    let mut ordered = pipeline(&plain, true);
    ordered.stages[1].ordered = true;
    assert!(
        why(&plain, &ordered).contains("stage 2 takes events in order"),
        "{}",
        why(&plain, &ordered)
    );
    let ordered = Pipeline { ordered_output: true, ..pipeline(&plain, true) };
    assert!(why(&plain, &ordered).contains("cannot leave in order"), "{}", why(&plain, &ordered));
    let again = changed(AGAIN.0, AGAIN.1);
    assert!(
        why(&again, &pipeline(&again, true)).contains("no bound"),
        "{}",
        why(&again, &pipeline(&again, true))
    );
    let both = changed(" unordered {", " unordered room 8 waits {");
    assert_eq!(why(&both, &pipeline(&both, true)), "");
    let text =
        print(&both, PrintOptions::default()).replace(" side host {", " side host room 8 waits {");
    let both = verify(parse(&text).unwrap_or_else(|e| panic!("{e}")))
        .unwrap_or_else(|e| panic!("{}", e[0]));
    let said = why(&both, &pipeline(&both, true));
    assert!(said.contains("queues that wait when they are full lead round"), "{said}");
}

/// The planner makes such plans where it may, and says why it does not.
#[test]
fn plans_go_round_where_that_has_a_bound() {
    let limits = Limits { candidates: 4, until: None, beyond_ceiling: false };
    for name in ["dpdk", "liquidio", "bluefield2"] {
        let target = nicforge_target::find(name).unwrap_or_else(|e| panic!("{e}"));
        let plan = |program: &Verified<Program>| {
            search(program, &target, &Config::default(), Goal::Rate, limits, &|| false).map(
                |found| {
                    let best = &found.candidates[found.best];
                    best.instance.edges.iter().any(|edge| edge.from > edge.to)
                },
            )
        };
        assert!(plan(&program("round")).unwrap_or_else(|e| panic!("{e}")), "{name}");
        let again = plan(&changed(AGAIN.0, AGAIN.1)).map_err(|e| e.to_string());
        assert!(
            again.as_ref().is_err_and(|e| e.contains("each would wait for the other")),
            "{again:?}"
        );
    }
}
