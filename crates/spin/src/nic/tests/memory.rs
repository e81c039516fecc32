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

/// A user's spec may have more clusters than the published NICs: each has its memory, and what lies
/// behind the last has none.
#[test]
fn eight_clusters_have_eight_memories() {
    let Some(image) = image(&RESERVE.replace("PLACE", "la t0, count")) else { return };
    let machine = Machine { clusters: 8, ..machine("pspin") };
    let mut nic = Nic::new(&machine, Options::default(), Box::new(SparseMemory::default()));
    nic.add_context(context(&image)).expect("the context starts");
    let place = |cluster: u32| map::L1 + cluster * map::L1_STRIDE + map::L1_SCRATCHPADS;
    for cluster in 0..8 {
        nic.write(0, place(cluster), &cluster.to_le_bytes()).unwrap();
    }
    for cluster in 0..8 {
        assert_eq!(nic.read(0, place(cluster), 4).unwrap(), cluster.to_le_bytes());
    }
    assert!(nic.write(0, place(8), &[0]).is_err());
}

#[test]
fn reservations_of_many_cores_lose_no_increment() {
    let places = ["la t0, count", "lw t0, 0(a0)\n lw t0, 0x10(t0)"];
    for (place, slice) in
        places.into_iter().flat_map(|place| [(place, 1), (place, SLICE), (place, 500)])
    {
        let Some(image) = image(&RESERVE.replace("PLACE", place)) else { return };
        let mut nic = nic("pspin", &image, Options { slice, ..Options::default() });
        // Messages of one cluster, so that scratchpads and handlers are near and far.
        for number in 0..40 {
            nic.arrive(packet(number, 64, number as u32 * 4, true));
        }
        nic.run_until(Until::Idle);
        assert_eq!(faults(&nic.take_out()), []);
        let word =
            |address: u32| u32::from_le_bytes(nic.read(0, address, 4).unwrap().try_into().unwrap());
        let at = if place.contains("count") {
            image.symbol("count").unwrap().address
        } else {
            map::L1 + map::L1_SCRATCHPADS
        };
        assert_eq!(word(at), 2000, "{place}, {slice}");
        assert!(nic.stats().busy.iter().filter(|cycles| **cycles > 0).count() >= 8);
    }
}

/// Loads a word over and over: from the scratchpad of the message's cluster plus what the packet is
/// long, beyond 64 bytes.
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

/// Cycles of the last of eight handlers that run beside each other in one cluster, on packets whose
/// lengths differ by some bytes.
fn cycles(place: &str, step: usize) -> Option<u64> {
    let image = image(&LOADS.replace("PLACE", place))?;
    let mut nic = nic("pspin", &image, Options { slice: 1, ..Options::default() });
    for number in 0..8 {
        nic.arrive(packet(0, 64 + number * step, 0, false));
    }
    nic.run_until(Until::Idle);
    let records = records(&nic.take_out());
    assert_eq!(
        records.iter().map(|record| record.hpu).collect::<std::collections::BTreeSet<_>>().len(),
        8
    );
    records.last().map(|record| record.times.ended - record.times.started)
}

/// Reads the packet's address, then byte 1 of the handler memory's, and leaves both in the
/// scratchpad.
const BYTES: &str = "
        .global ph
    ph: lw t0, 0(a0)
        lw t3, 0x10(t0)
        lw t1, 8(t0)
        lbu t2, 1(t0)
        lbu t4, 0(t0)
        sw t1, 0(t3)
        sb t2, 4(t3)
        sb t4, 5(t3)
        ret
";

#[test]
fn bytes_of_task_registers_are_right_unless_the_fault_is_asked_for() {
    let Some(image) = image(BYTES) else { return };
    for bugs in [false, true] {
        let mut nic =
            nic("pspin", &image, Options { compat: Compat { bugs }, ..Options::default() });
        nic.arrive(packet(0, 64, 0, true));
        nic.run_until(Until::Idle);
        let seen = nic.read(0, map::L1 + map::L1_SCRATCHPADS, 6).unwrap();
        let memory = nic.handler_memory(0).unwrap().start.to_le_bytes();
        let expected = if bugs { seen[1] } else { memory[1] };
        assert_eq!((seen[4], seen[5]), (expected, memory[0]), "{bugs}");
        assert_ne!(seen[1], memory[1]);
    }
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
    let (Some(far), Some(handler)) = (
        cycles(&format!("lw t0, 0x14(t0)\n {apart}"), 4),
        cycles(&format!("lw t0, 0(t0)\n {apart}"), 4),
    ) else {
        return;
    };
    assert_eq!((far - near, handler - near), (100 * 24, 100 * 21));
}
