//! Memory that cores share: atomics, reservations, banks, distances.

use super::*;
use crate::machine::map;

/// Adds one to a word, 50 times, by reserving it.
const RESERVE: &str = "
        .global ph
    ph: PLACE
        li t4, 50
    1:  lr.w t1, (t0)
        addi t1, t1, 1
        sc.w t2, t1, (t0)
        bnez t2, 1b
        addi t4, t4, -1
        bnez t4, 1b
        ret
        .data
        .global count
    count: .word 0
        .text
";

#[test]
fn reservations_of_many_cores_lose_no_increment() {
    let places = ["la t0, count", "lw t0, 0(a0)\n lw t0, 0x10(t0)"];
    for (place, slice) in places.into_iter().flat_map(|place| [(place, 1), (place, SLICE), (place, 500)]) {
        let Some(image) = image(&RESERVE.replace("PLACE", place)) else { return };
        let mut nic = nic("pspin", &image, Options { slice, ..Options::default() });
        // Messages of one cluster, so that scratchpads and handlers are near and far.
        for number in 0..40 {
            nic.arrive(packet(number, 64, number as u32 * 4, true));
        }
        nic.run_until(Until::Idle);
        assert_eq!(faults(&nic.take_out()), []);
        let word = |address: u32| u32::from_le_bytes(nic.read(0, address, 4).unwrap().try_into().unwrap());
        let at = if place.contains("count") {
            image.symbol("count").unwrap().address
        } else {
            map::L1 + map::L1_SCRATCHPADS
        };
        assert_eq!(word(at), 2000, "{place}, {slice}");
        assert!(nic.stats().busy.iter().filter(|cycles| **cycles > 0).count() >= 8);
    }
}

/// Loads a word over and over: from the scratchpad of the message's cluster plus what the packet is long, beyond 64 bytes.
const LOADS: &str = "
        .global ph
    ph: lw t0, 0(a0)
        lw t1, 12(t0)
        PLACE
        li t4, 100
        .balign 4
    1:  lw t2, 0(t0)
        addi t4, t4, -1
        bnez t4, 1b
        ret
";

/// Cycles of the last of eight handlers that run beside each other in one cluster, on packets whose lengths differ by some bytes.
fn cycles(place: &str, step: usize) -> Option<u64> {
    let image = image(&LOADS.replace("PLACE", place))?;
    let mut nic = nic("pspin", &image, Options { slice: 1, ..Options::default() });
    for number in 0..8 {
        nic.arrive(packet(0, 64 + number * step, 0, false));
    }
    nic.run_until(Until::Idle);
    let records = records(&nic.take_out());
    assert_eq!(records.iter().map(|record| record.hpu).collect::<std::collections::BTreeSet<_>>().len(), 8);
    records.last().map(|record| record.times.ended - record.times.started)
}

#[test]
fn a_bank_serves_one_access_a_cycle() {
    let place = "lw t0, 0x10(t0)\n addi t1, t1, -64\n add t0, t0, t1";
    let (Some(same), Some(other)) = (cycles(place, 0), cycles(place, 4)) else { return };
    // Each asks every 5 cycles; eight that ask one bank get it every 8.
    assert!((500..600).contains(&other), "{other}");
    assert!((700..850).contains(&same), "{same}");
}

#[test]
fn distance_costs_what_the_machine_says() {
    let apart = "addi t1, t1, -64\n add t0, t0, t1";
    let Some(near) = cycles(&format!("lw t0, 0x10(t0)\n {apart}"), 4) else { return };
    let (Some(far), Some(handler)) =
        (cycles(&format!("lw t0, 0x14(t0)\n {apart}"), 4), cycles(&format!("lw t0, 0(t0)\n {apart}"), 4))
    else {
        return;
    };
    assert_eq!((far - near, handler - near), (100 * 24, 100 * 21));
}
