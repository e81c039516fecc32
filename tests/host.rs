//! Programs compiled for processes against the interpreter: every example's captures, random
//! programs, and programs whose handlers send each other events. Outputs, tables and counters must
//! be equal, evictions included.
//!
//! `NICFORGE_RANDOM_PROGRAMS` sets how many random programs (default 200), `NICFORGE_RANDOM_SEED`
//! the first seed.

use std::sync::atomic::{AtomicU64, Ordering};

use nicforge_ir::generate::{Options, decisions, events, generate_from, shrink};
use nicforge_ir::text::{PrintOptions, parse, print};
use nicforge_ir::{
    Entry, Input, InputEvent, Interp, Match, Program, TableBackend, TableId, Verified, io, verify,
};
use nicforge_passes::PassManager;
use nicforge_run::control;
use nicforge_run::host::{HostOptions, HostProgram, Watch};
use nicforge_tests::example::for_each;
use nicforge_tests::{internal, setting};

/// Everything but integers whose width C has no type for: no source has them.
const OPTIONS: Options = Options { odd_widths: false, ..Options::ALL };

/// What differs between the interpreter and the compiled program, or `None`.
fn difference(
    program: &Verified<Program>,
    compiled: &Verified<Program>,
    entries: &[(TableId, Entry)],
    events: &[InputEvent],
    options: HostOptions,
) -> Option<String> {
    let mut host = match HostProgram::build_with(compiled, options) {
        Ok(host) => host,
        Err(error) => return Some(error.to_string()),
    };
    let mut interp = Interp::new(program);
    control::apply(&mut interp, entries).unwrap_or_else(|e| panic!("{e}"));
    control::apply(host.tables_mut(), entries).unwrap_or_else(|e| panic!("{e}"));
    for (i, event) in events.iter().enumerate() {
        let want = interp.run(event).map_err(|e| e.to_string());
        let got = host.run_one(event).map_err(|e| e.to_string());
        if want != got {
            return Some(format!("event {i}\nwant {want:?}\ngot  {got:?}"));
        }
    }
    for (id, table) in &program.tables {
        let (want, got) = (interp.dump(id), host.tables().dump(id));
        if want != got {
            return Some(format!("table {}\nwant {want:?}\ngot  {got:?}", table.name));
        }
        let counters = interp.counters();
        let (want, got) =
            ((counters.refused[id], counters.evicted[id]), (host.refused(id), host.evicted(id)));
        if want != got {
            return Some(format!(
                "table {}: refused and evicted\nwant {want:?}\ngot  {got:?}",
                table.name
            ));
        }
    }
    program.reasons.keys().find_map(|reason| {
        let (want, got) = (interp.counters().drops[reason], host.drops(reason));
        (want != got).then(|| format!("drops for {reason}\nwant {want}\ngot  {got}"))
    })
}

#[test]
fn examples_do_the_same_in_a_process() {
    for_each(|example| {
        let compiled = PassManager::new()
            .run_default(example.program.clone())
            .unwrap_or_else(|e| panic!("{e}"));
        let options = HostOptions::default();
        let found =
            difference(&example.program, &compiled, &example.entries, &example.events, options);
        assert!(found.is_none(), "{}: {}", example.name, found.unwrap_or_default());
    });
}

fn random_difference(list: &[u32], seed: u64) -> Option<String> {
    let program = generate_from(list, OPTIONS.for_seed(seed));
    let compiled = match PassManager::new().run_default(program.clone()) {
        Ok(compiled) => compiled,
        Err(error) => return Some(error.to_string()),
    };
    // Being watched must not change what a program does.
    let watch = [Watch::Counts, Watch::Keys, Watch::Nothing, Watch::Nothing][seed as usize % 4];
    let options = HostOptions { watch, ..HostOptions::default() };
    difference(&program, &compiled, &[], &events(seed, 200), options)
}

#[test]
fn random_programs_do_the_same_in_a_process() {
    let first = setting("NICFORGE_RANDOM_SEED", 0);
    let count = setting("NICFORGE_RANDOM_PROGRAMS", 80);
    let next = AtomicU64::new(first);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= first + count {
                        break;
                    }
                    let list = decisions(seed);
                    let Some(what) = random_difference(&list, seed) else { continue };
                    println!("seed {seed}: {what}\nLooking for a smaller program ...");
                    let small = shrink(&list, |list| random_difference(list, seed).is_some());
                    let what = random_difference(&small, seed).unwrap_or_default();
                    let program = generate_from(&small, OPTIONS.for_seed(seed));
                    panic!(
                        "seed {seed}: {what}\n\nfor:\n{}",
                        print(&program, PrintOptions::default())
                    );
                }
            });
        }
    });
}

/// Programs as cutting leaves them: handlers joined by events that carry values, packets, both, and
/// themselves again.
#[test]
fn handlers_send_each_other_events() {
    for name in ["chain", "cycle"] {
        let program = internal(name);
        let compiled =
            PassManager::new().run_default(program.clone()).unwrap_or_else(|e| panic!("{e}"));
        for (seed, compiled) in [&program, &compiled].into_iter().enumerate() {
            let events = events(seed as u64, 2000);
            let found = difference(&program, compiled, &[], &events, HostOptions::default());
            assert!(found.is_none(), "{name}: {}", found.unwrap_or_default());
        }
    }
}

/// Entries come and go, in the interpreter and in a process, and what is found is compared. `some`
/// gives key and match from random numbers, near 10.0.0.0.
fn come_and_go(table: &str, some: impl Fn(u32, &dyn Fn(u64) -> u32) -> (u32, Match)) {
    let text = format!(
        "program routes ports 1
        table routes: {table}
        event net_recv(pkt: packet) in
        event net_send(pkt: packet, port: u32) out
        handler net_recv on net_recv(%pkt: packet) {{
            %ok: u1, %address: u32 = extract %pkt
            %hit: u1, %hop: u32 = lookup routes[%address]
            emit %pkt, %hop
            %port: u32 = 0
            generate net_send(%pkt, %port)
            return
        }}"
    );
    let program = verify(parse(&text).unwrap_or_else(|e| panic!("{e}")))
        .unwrap_or_else(|e| panic!("{}", e[0]));
    let table = program.table_named("routes").expect("the table above");
    let mut host =
        HostProgram::build_with(&program, HostOptions::default()).unwrap_or_else(|e| panic!("{e}"));
    let mut interp = Interp::new(&program);
    let (mut hits, mut removed, mut refused) = (0, 0, 0);
    for step in 0..20_000u64 {
        let number = |n: u64| io::random(step, n);
        // A few bits that vary at each level, so that entries lie in one another.
        let address =
            [0x0a00_0000, 0x0a01_0000][number(0) as usize % 2] | (number(1) & 0x0003_0307);
        let address = if number(2) % 8 == 0 { number(3) } else { address };
        let (key, matching) = some(address, &number);
        let key = key.to_be_bytes().to_vec();
        // Tables grow, and then shrink again.
        if number(5) % 10 < if step / 2500 % 2 == 0 { 7 } else { 3 } {
            let value = (step as u32 + 1).to_le_bytes().to_vec();
            let entry = Entry { key, matching, value, buf: None };
            let (want, got) = (interp.set(table, &entry), host.tables_mut().set(table, &entry));
            assert_eq!(want.is_ok(), got.is_ok(), "step {step}: {entry:?}");
            refused += u32::from(want.is_err());
        } else {
            let want = interp.delete(table, &key, &matching).unwrap_or_else(|e| panic!("{e}"));
            let got =
                host.tables_mut().delete(table, &key, &matching).unwrap_or_else(|e| panic!("{e}"));
            assert_eq!(want, got, "step {step}: {key:?} {matching:?}");
            removed += u32::from(want);
        }
        for n in 6..10 {
            let asked = address ^ [0, 1, number(n) & 0x1ff, number(n) & 0x3_ffff][n as usize % 4];
            let frame = [&asked.to_le_bytes()[..], &[0; 60]].concat();
            let event = InputEvent { time_ns: step, seed: 0, input: Input::Net { port: 0, frame } };
            let want = interp.run(&event).unwrap_or_else(|e| panic!("{e}"));
            let got = host.run_one(&event).unwrap_or_else(|e| panic!("{e}"));
            assert_eq!(want, got, "step {step}: {asked:#x}");
            hits += u32::from(!format!("{want:?}").contains("frame: [0, 0, 0, 0"));
        }
    }
    assert!(
        hits > 10_000 && removed > 500 && refused > 100,
        "{hits} hits, {removed} removed, {refused} refused"
    );
}

/// Longest prefixes of addresses lie in arrays beside the index; both must stay right.
#[test]
fn prefixes_come_and_go() {
    come_and_go("lpm[u32 be -> u32] capacity 300", |address, number| {
        let bits = [0, 7, 8, 14, 15, 16, 17, 22, 23, 24, 25, 30, 31, 32][number(4) as usize % 14];
        let mask = if bits == 0 { 0 } else { !0u32 << (32 - bits) };
        (address & mask, Match::Prefix(bits))
    });
}

/// Masked entries have rows of bits beside their list.
#[test]
fn masks_come_and_go() {
    come_and_go("ternary[u32 be -> u32] capacity 150", |address, number| {
        let masks =
            [!0, 0xffff_ff00, 0xffff_0000, 0xff00_ff07, 0x0000_0007, 0xff03_0000, 0, 0x0001_0001];
        let mask: u32 = masks[number(4) as usize % 8];
        (
            address & mask,
            Match::Mask { mask: mask.to_be_bytes().to_vec(), priority: number(11) % 3 },
        )
    });
}
