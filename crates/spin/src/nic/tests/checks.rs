//! Handlers and messages that go wrong: every one ends with a counted, explained outcome, and the
//! message goes on.

use super::*;

/// Runs handlers on packets; everything must have been given back.
fn run(handlers: &str, options: Options, arrivals: Vec<Arrival>) -> Option<(Nic, Vec<Out>)> {
    let image = image(handlers)?;
    let mut nic = nic("pspin", &image, options);
    arrivals.into_iter().for_each(|arrival| nic.arrive(arrival));
    nic.run_until(Until::Idle);
    let out = nic.take_out();
    assert_clean(&mut nic);
    Some((nic, out))
}

fn three() -> Vec<Arrival> {
    (0..3).map(|number| packet(number * 500, 256, 1, number == 2)).collect()
}

#[test]
fn a_faulting_store_ends_the_handler_and_not_the_message() {
    let handlers = "
        .global ph
        .global th
    ph: nop
        sw zero, 0(zero)
        ret
    th: ret
    ";
    let Some((nic, out)) = run(handlers, Options::default(), three()) else { return };
    assert_eq!((nic.stats().faults, nic.stats().handlers, fed_back(&out)), ([3, 0, 0, 0], 4, 3));
    let all = faults(&out);
    assert_eq!(all.len(), 3, "reported once, though the runtime reports it too");
    assert_eq!(
        all[0].to_string(),
        format!(
            "cycle {}: payload handler of context 0, message 0x1, HPU 8, pc {:#010x} (ph+0x2): StoreFault at 0x0: no memory at this \
             address; the handler was ended",
            all[0].time, all[0].pc
        )
    );
    assert_eq!(nic.message_counts().ended, 1);
}

#[test]
fn images_without_a_trap_handler_go_on_too() {
    let handlers = "
        .global hh
        .global ph
    hh: csrw mtvec, zero
        ebreak
    ph: csrw mtvec, zero
        li t0, 0x1c401000
        lw t0, 32(t0)
        ret
    ";
    let Some((nic, out)) = run(handlers, Options::default(), three()) else { return };
    assert_eq!((nic.stats().faults[0], nic.stats().handlers, nic.stats().restarts), (4, 4, 0));
    assert!(
        faults(&out)[1].to_string().contains("not this handler's packet"),
        "{}",
        faults(&out)[1]
    );
}

#[test]
fn a_fault_in_the_trap_handler_restarts_the_unit() {
    let handlers = "
        .global ph
    ph: li sp, 0x1b000000
        la t0, 1f
        csrw mtvec, t0
        lw t0, 0(sp)
        .balign 4
    1:  lw t0, -4(sp)
        j 1b
    ";
    let Some((nic, out)) = run(handlers, Options::default(), three()) else { return };
    assert_eq!((nic.stats().faults[0], nic.stats().restarts, fed_back(&out)), (3, 3, 3));
}

#[test]
fn an_endless_loop_meets_the_watchdog() {
    let options = Options { watchdog: Some(2000), ..Options::default() };
    let Some((nic, out)) = run(".global ph\nph: j ph\n", options, three()) else { return };
    assert_eq!((nic.stats().faults, fed_back(&out)), ([0, 3, 0, 0], 3));
    let record = records(&out)[0];
    let cycles = record.times.ended - record.times.started;
    assert!((2000..2020).contains(&cycles), "{cycles}");
    assert!(record.failed && record.instructions > 900);
    let fault = faults(&out)[0].to_string();
    assert!(fault.contains("(ph): still running after 2000 cycles"), "{fault}");
}

/// Calls itself as often as the packet is long.
const DEEP: &str = "
        .global ph
    ph: lw t0, 0(a0)
        lw t1, 12(t0)
    1:  addi sp, sp, -16
        sw ra, 0(sp)
        addi t1, t1, -1
        bgtz t1, 1b
        ret
";

#[test]
fn a_stack_of_a_kibibyte_is_guarded() {
    let Some((nic, out)) = run(DEEP, Options::default(), vec![packet(0, 60, 0, true)]) else {
        return;
    };
    assert_eq!((nic.stats().faults[0], faults(&out)), (0, vec![]));
    let Some((nic, out)) = run(DEEP, Options::default(), vec![packet(0, 70, 0, true)]) else {
        return;
    };
    assert_eq!(nic.stats().faults[0], 1);
    assert!(
        faults(&out)[0].to_string().contains("below the handler's stack of 1 KiB"),
        "{}",
        faults(&out)[0]
    );
    // Core 1 runs into core 0's stack, which hardware does not notice.
    let both = vec![packet(0, 70, 0, false), packet(1, 70, 0, true)];
    let Some((nic, _)) = run(DEEP, Options::default(), both.clone()) else { return };
    assert_eq!(nic.stats().faults[0], 2);
    let bugs = Options { compat: Compat { bugs: true }, ..Options::default() };
    let Some((nic, _)) =
        run(&DEEP.replace("ret", "lw zero, 0x50(s0)\n1: lw t0, 0(s0)\n j 1b"), bugs, both)
    else {
        return;
    };
    assert_eq!(nic.stats().faults[0], 1, "core 0 leaves memory, core 1 does not");
}

#[test]
fn sending_what_was_freed_is_refused_and_counted() {
    // Keeps the first packet's address for the second one's handler, which sends from there when it
    // is too late.
    let handlers = format!(
        "{}\n.data\n.global kept\nkept: .word 0\n.text\n",
        super::commands::PING.replace(
            "    li t3, 2",
            "    la t5, kept
                 lw t6, 0(t5)
                 lw t3, 60(t0)
                 sw t3, 0(t5)
                 beqz t6, 1f
                 mv t1, t6
                 li t3, 300
             2:  addi t3, t3, -1
                 bnez t3, 2b
             1:  li t3, 2"
        )
    );
    let arrivals = vec![packet(0, 64, 0, false), packet(90, 64, 0, true)];
    let Some((nic, out)) = run(&handlers, Options::default(), arrivals) else { return };
    let stats = nic.stats();
    assert_eq!((stats.sent, stats.commands_refused, stats.sends_after_free), (1, 1, 1));
    let all = faults(&out);
    assert!(all[0].to_string().contains("is free, its handlers have ended"), "{}", all[0]);
}

#[test]
fn writes_outside_of_what_a_handler_has_are_faults() {
    let cases = [
        ("0x1b000800", "another core's stack"),
        ("0x1b004800", "see their stack, packet and scratchpad only"),
        ("0x10000000", "another cluster's memory"),
        ("0x1c000000", "constants of the image cannot be written"),
        ("0x1c100000", "belongs neither to the image nor to the context"),
        ("0x1c400400", "not this handler's packet"),
        ("0x1d000000", "program memory cannot be written"),
        ("0x20000000", "no memory at this address"),
    ];
    let table: String = cases.iter().map(|(address, _)| format!(".word {address}\n")).collect();
    let handlers = format!(
        ".global ph
    ph: lw t0, 0(a0)
        lw t1, 12(t0)
        la t2, table
        add t2, t2, t1
        lw t2, -64(t2)
        sw zero, 0(t2)
        ret
        .section .rodata
    table: {table}"
    );
    // The length chooses the case; messages go to another cluster than the first.
    let arrivals = (0..cases.len()).map(|at| packet(at as u64 * 1000, 64 + at * 4, 1, false));
    let Some((nic, out)) = run(&handlers, Options::default(), arrivals.collect()) else { return };
    let all = faults(&out);
    assert_eq!(all.len(), cases.len());
    for (fault, (address, reason)) in all.iter().zip(cases) {
        assert!(fault.to_string().contains(reason), "{address}: {fault}");
    }
    assert_eq!(nic.stats().faults[0], cases.len() as u64);
}

#[test]
fn commands_that_may_not_are_refused_and_the_handler_goes_on() {
    let cases = [
        ("sw t2, 0x90(s0)", "are not in the context's host memory"),
        ("li t1, 16", "no memory at this address"),
    ];
    for (line, reason) in cases {
        let to_host = format!(
            ".global ph
        ph: lw t0, 0(a0)
            lw t1, 8(t0)
            lw t2, 12(t0)
            lw t5, 0x30(t0)
            lw t6, 0x34(t0)
            sw zero, 0x8c(s0)
            sw t6, 0x90(s0)
            sw t5, 0x94(s0)
            {line}
            sw t1, 0x98(s0)
            sw t2, 0x9c(s0)
            li t3, 1
            sw t3, 0xa0(s0)
            lw t4, 0x80(s0)
            sw t4, 0x84(s0)
            ret"
        );
        let Some((nic, out)) = run(&to_host, Options::default(), three()) else { return };
        assert_eq!((nic.stats().commands_refused, nic.stats().faults), (3, [0; 4]));
        assert!(faults(&out)[0].to_string().contains(reason), "{}", faults(&out)[0]);
    }
    let Some((_, out)) =
        run(super::commands::PING, Options::default(), vec![packet(0, 2049, 0, true)])
    else {
        return;
    };
    assert!(
        faults(&out)[0].to_string().contains("the longest that can be sent has 2048"),
        "{}",
        faults(&out)[0]
    );
}

#[test]
fn text_comes_out_by_line_and_assertions_end_the_handler() {
    let handlers = "
        .global ph
    ph: li t0, 0x1a104000
        li t1, 'h'
        sw t1, 0(t0)
        li t1, '\\n'
        sw t1, 0(t0)
        li t1, '!'
        sw t1, 0(t0)
        li t0, 0x1b200000
    1:  sw t0, 0(t0)
        j 1b
    ";
    let Some((nic, out)) = run(handlers, Options::default(), vec![packet(0, 64, 0, true)]) else {
        return;
    };
    let text: String = out
        .iter()
        .filter_map(
            |out| if let Out::Stdout { text, .. } = out { Some(text.as_str()) } else { None },
        )
        .collect();
    assert_eq!((text.as_str(), nic.stats().faults), ("h\n!", [0, 0, 0, 1]));
    assert!(
        faults(&out)[0].symbol.as_ref().is_some_and(|symbol| symbol.starts_with("ph+")),
        "{out:?}"
    );
}

const EMPTY_ALL: &str = ".global hh\n.global ph\n.global th\nhh: ret\nph: ret\nth: ret\n";

#[test]
fn a_lost_end_is_given_up_after_its_time() {
    let options = Options { end_timeout: Some(5000), ..Options::default() };
    let arrivals = vec![packet(0, 64, 7, false), packet(500, 64, 7, false)];
    let Some((nic, out)) = run(EMPTY_ALL, options, arrivals.clone()) else { return };
    assert!(out.iter().any(
        |out| matches!(out, Out::Abandoned { context: 0, message: 7, time } if *time >= 5500)
    ));
    assert_eq!(
        (fed_back(&out), nic.message_counts().abandoned, nic.message_counts().ended),
        (2, 1, 0)
    );
    let Some((nic, _)) = run(EMPTY_ALL, Options::default(), arrivals) else { return };
    assert_eq!(nic.message_counts().abandoned, 0, "without the option it stays open");
}

#[test]
fn duplicates_other_orders_and_late_packets_all_come_back() {
    // 0, 2, 1, 1, the end, then two that come too late.
    let arrivals: Vec<Arrival> = (0..7).map(|at| packet(at * 10, 64, 5, at == 4)).collect();
    let Some((nic, out)) = run(EMPTY_ALL, Options::default(), arrivals.clone()) else { return };
    assert_eq!(fed_back(&out), 7);
    let counts = nic.message_counts();
    assert!(counts.messages <= 2 && counts.ended == 1, "{counts:?}");
    // As in hardware: what is late keeps its memory until the next message.
    let image = image(EMPTY_ALL).unwrap();
    let bugs = Options { compat: Compat { bugs: true }, ..Options::default() };
    let mut nic = nic_with(&image, bugs, arrivals);
    let out = nic.take_out();
    assert!(fed_back(&out) < 7 && nic.message_counts().late > 0, "{:?}", nic.message_counts());
}

fn nic_with(image: &Image, options: Options, arrivals: Vec<Arrival>) -> Nic {
    let mut nic = nic("pspin", image, options);
    arrivals.into_iter().for_each(|arrival| nic.arrive(arrival));
    nic.run_until(Until::Idle);
    nic
}

const SLOW: &str = "
        .global ph
    ph: li t0, 1000
    1:  addi t0, t0, -1
        bnez t0, 1b
        ret
";

#[test]
fn full_packet_memory_drops_and_counts_or_holds_up() {
    let Some(image) = image(SLOW) else { return };
    let arrivals =
        |count: u64| (0..count).map(|at| packet(at, 1400, at as u32, true)).collect::<Vec<_>>();
    let mut machine = machine("pspin");
    machine.packet_bytes = 64 * 1408;
    for (full, bugs) in [(Full::Drop, false), (Full::Wait, false), (Full::Drop, true)] {
        let options = Options { full, compat: Compat { bugs }, ..Options::default() };
        let mut nic = Nic::new(&machine, options, Box::new(SparseMemory::default()));
        nic.add_context(context(&image)).unwrap();
        arrivals(300).into_iter().for_each(|arrival| nic.arrive(arrival));
        nic.run_until(Until::Idle);
        let out = nic.take_out();
        let dropped = nic.stats().dropped_for(Dropped::PacketMemory);
        assert_eq!(fed_back(&out) as u64 + dropped, 300);
        assert_eq!(
            out.iter().filter(|out| matches!(out, Out::Dropped { .. })).count() as u64,
            dropped
        );
        if full == Full::Drop && !bugs {
            assert!(dropped > 100, "{dropped}");
        } else {
            assert!(dropped == 0 && nic.stats().held_up > 0);
        }
        assert_clean(&mut nic);
    }
}

#[test]
fn full_queues_and_cells_drop_and_count_or_hold_up() {
    let Some(image) = image(SLOW) else { return };
    for full in [Full::Drop, Full::Wait] {
        let options = Options { full, ..Options::default() };
        // One message: its queue and all cells fill while 32 handlers run.
        let nic =
            nic_with(&image, options, (0..400).map(|at| packet(at, 64, 0, at == 399)).collect());
        let dropped = nic.stats().dropped_for(Dropped::NoCell);
        assert_eq!(nic.stats().feedback + dropped, 400);
        assert_eq!(dropped > 0, full == Full::Drop, "{dropped}");
    }
}
