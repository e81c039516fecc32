//! Cycles of the pipeline, as logs of RTL simulations have them.

use super::*;

const EMPTY: &str = "
    .global ph
ph: ret
";

#[test]
fn stages_without_load_take_exactly_the_published_cycles() {
    let Some(image) = image(EMPTY) else { return };
    for bytes in [32, 64, 65, 128, 512, 1000, 1024, 2048] {
        let mut nic = nic("pspin", &image, Options::default());
        nic.arrive(packet(100, bytes, 0, true));
        nic.run_until(Until::Idle);
        let out = nic.take_out();
        let times = records(&out)[0].times;
        let beats = bytes.div_ceil(64) as u64;
        assert_eq!(times.written, 100);
        assert_eq!(times.described - times.written, 4 + beats, "{bytes}: written to described");
        assert_eq!(times.copied - times.described, 4, "{bytes}: described to copied");
        assert_eq!(times.started - times.copied, 12 + beats, "{bytes}: copied to started");
        assert_eq!(times.feedback - times.ended, 1, "{bytes}: ended to feedback");
        assert_eq!(fed_back(&out), 1);
        assert_clean(&mut nic);
    }
}

#[test]
fn an_empty_handler_costs_its_runtime_and_misses_the_first_time() {
    let Some(image) = image(EMPTY) else { return };
    let mut nic = nic("pspin", &image, Options::default());
    for time in [0, 1000, 2000] {
        nic.arrive(packet(time, 64, 0, false));
    }
    nic.run_until(Until::Idle);
    let cycles: Vec<u64> = records(&nic.take_out())
        .iter()
        .map(|record| record.times.ended - record.times.started)
        .collect();
    // Load, move, call 2, return 2, doorbell 3; the first time the loop's line and the handler's
    // are not there. As in RTL: 25, 9.
    assert_eq!(cycles, [9 + 2 * 8, 9, 9]);
    assert_eq!(nic.stats().cache_misses, cold_misses(&image));
}

/// Lines that starting takes, in every cluster, and in one those of the handler and the two of the
/// loop.
fn cold_misses(image: &Image) -> u64 {
    let mut nic = nic("pspin", image, Options::default());
    nic.run_until(Until::Idle);
    nic.stats().cache_misses + 3
}

#[test]
fn units_are_taken_from_the_lowest_in_the_home_cluster() {
    let Some(image) = image(EMPTY) else { return };
    let mut nic = nic("pspin", &image, Options::default());
    for number in 0..8 {
        nic.arrive(packet(number * 2000, 1024, number as u32, true));
    }
    nic.run_until(Until::Idle);
    let units: Vec<usize> = records(&nic.take_out()).iter().map(|record| record.hpu).collect();
    assert_eq!(units, [0, 8, 16, 24, 0, 8, 16, 24]);
}

#[test]
fn matching_on_fpspin_takes_its_time_and_the_host_gets_the_rest() {
    let Some(image) = image(EMPTY) else { return };
    let mut nic =
        Nic::new(&machine("fpspin"), Options::default(), Box::new(SparseMemory::default()));
    nic.add_context(Context { ruleset: Some(Ruleset::UDP), ..context(&image) }).unwrap();
    let mut udp = vec![0; 128];
    udp[12..14].copy_from_slice(&[8, 0]);
    udp[14] = 0x45;
    udp[23] = 17;
    let mut tcp = udp.clone();
    tcp[23] = 6;
    nic.arrive(Arrival { frame: udp, user: 1, ..Arrival::default() });
    nic.arrive(Arrival { frame: tcp.clone(), user: 2, ..Arrival::default() });
    nic.run_until(Until::Idle);
    let out = nic.take_out();
    assert_eq!(records(&out)[0].times.written, 4 + 2, "matched, and stored first");
    // The second frame waits for the matcher, which takes 4 cycles, 2 beats and a gap of 2 a frame.
    assert!(out.contains(&Out::ToHost { time: 14, user: 2, frame: tcp }), "{out:?}");
    assert_eq!((nic.stats().matched, nic.stats().to_host), (1, 1));
}

#[test]
fn equal_inputs_give_equal_outputs() {
    let Some(image) = image(super::commands::PING) else { return };
    let run = || {
        let mut nic = nic("pspin", &image, Options::default());
        for number in 0..200 {
            nic.arrive(packet(
                number * 7,
                64 + number as usize * 5,
                number as u32 % 9,
                number % 20 == 19,
            ));
        }
        nic.run_until(Until::Idle);
        assert_clean(&mut nic);
        nic.take_out()
    };
    assert_eq!(run(), run());
}

#[test]
fn running_in_pieces_changes_nothing() {
    let Some(image) = image(super::commands::PING) else { return };
    let run = |step: Option<u64>| {
        let mut nic = nic("pspin", &image, Options::default());
        for number in 0..50 {
            nic.arrive(packet(number * 20, 1024, 3, number == 49));
        }
        for cycle in (0..4000).step_by(step.unwrap_or(4000) as usize) {
            nic.run_until(Until::Cycle(cycle));
        }
        nic.run_until(Until::Idle);
        nic.take_out()
    };
    assert_eq!(records(&run(None)).len(), records(&run(Some(13))).len());
    assert_eq!(fed_back(&run(Some(1))), 50);
}
