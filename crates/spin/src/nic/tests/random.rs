//! Random messages through the whole NIC, against what must hold whatever the order: every frame is
//! accounted for once, and handlers of a message come in their order. Images made of anything at
//! all end too.

use std::collections::BTreeMap;

use super::*;
use crate::messages::Handler;

/// Handlers that do as the packet's first byte says: loop, fault, send, never end.
const ANY: &str = "
        .global hh
        .global ph
        .global th
    hh:
    ph:
    th: lw t0, 0(a0)
        lw t1, 8(t0)
        lbu t2, 0(t1)
        andi t3, t2, 15
        li t4, 1
        beq t3, t4, 2f
        li t4, 2
        beq t3, t4, 3f
        li t4, 3
        beq t3, t4, 4f
    1:  addi t2, t2, -1
        bgtz t2, 1b
        ret
    2:  sw zero, 0(zero)
        ret
    3:  j 3b
    4:  lw t2, 12(t0)
        li t3, 2
        sw t3, 0x8c(s0)
        sw zero, 0x90(s0)
        sw zero, 0x94(s0)
        sw t1, 0x98(s0)
        sw zero, 0x9c(s0)
        sw t2, 0xa0(s0)
        lw t4, 0x80(s0)
        lw t4, 0x80(s0)
        ret
";

struct Random(nicforge_util::Random);

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.0.next() % n.max(1)
    }
}

#[test]
fn every_frame_is_accounted_for_and_handlers_keep_their_order() {
    let Some(image) = image(ANY) else { return };
    for seed in 0..30 {
        let mut random = Random(nicforge_util::Random::new(seed));
        let name = ["pspin", "fpspin"][seed as usize % 2];
        let mut machine = machine(name);
        machine.packet_bytes = [1 << 19, 1 << 15][random.below(2) as usize];
        machine.cells = [128, 4][random.below(2) as usize];
        let options = Options {
            full: [Full::Drop, Full::Wait][random.below(2) as usize],
            watchdog: Some(1500),
            end_timeout: Some(20_000),
            slice: 1 + random.below(64),
            ..Options::default()
        };
        if machine.packets_in == PacketMemory::Slots {
            machine.packet_bytes = 1 << 19;
        }
        let mut nic = Nic::new(&machine, options, Box::new(SparseMemory::default()));
        for weight in 1..=2 {
            nic.add_context(Context {
                weight: NonZeroU32::new(weight).unwrap(),
                ..context(&image)
            })
            .unwrap();
        }
        let (mut time, count) = (0, 300);
        for user in 0..count {
            time += random.below(30);
            let mut frame = vec![0; random.below(1600) as usize];
            if let Some(first) = frame.first_mut() {
                *first = random.below(256) as u8;
            }
            // A third context that there is not.
            let context = [0, 0, 0, 1, 1, 1, 1, 2][random.below(8) as usize];
            let matched =
                Matched { context, message: random.below(12) as u32, last: random.below(10) == 0 };
            nic.arrive(Arrival { time, frame, matched: Some(matched), copied: None, user });
        }
        nic.run_until(Until::Idle);
        assert_clean(&mut nic);
        let out = nic.take_out();
        let mut seen: BTreeMap<u64, u32> = BTreeMap::new();
        for out in &out {
            if let Out::Feedback { user, .. } | Out::Dropped { user, .. } = out {
                *seen.entry(*user).or_default() += 1;
            }
        }
        assert_eq!(seen.len() as u64, count, "seed {seed}: not all frames came back");
        assert!(seen.values().all(|times| *times == 1), "seed {seed}: a frame came back twice");
        check_order(&records(&out), seed);
        let stats = nic.stats();
        assert_eq!(
            stats.faults.iter().sum::<u64>(),
            faults(&out).len() as u64 - stats.commands_refused
        );
        assert_eq!(stats.handlers, records(&out).len() as u64);
    }
}

/// In a message: the header handler ends before payload handlers start, and completion starts when
/// all of them have ended.
fn check_order(records: &[Record], seed: u64) {
    let mut messages: BTreeMap<(usize, u32), Vec<&Record>> = BTreeMap::new();
    for record in records {
        assert!(
            record.times.started < record.times.ended && record.times.ended < record.times.feedback
        );
        messages.entry((record.context, record.message)).or_default().push(record);
    }
    for (message, mut records) in messages {
        records.sort_by_key(|record| record.times.started);
        let mut latest = 0;
        for record in records {
            // Each handler that runs alone separates what was before from what comes after.
            if record.handler != Handler::Payload {
                assert!(record.times.started >= latest, "seed {seed}, {message:?}: {record:?}");
            }
            latest = latest.max(record.times.ended);
        }
    }
}

#[test]
fn images_made_of_anything_end_or_are_refused() {
    let mut random = Random(nicforge_util::Random::new(7));
    let good = elf(ANY).unwrap_or_default();
    for _ in 0..60 {
        let code: Vec<u8> = (0..random.below(200)).map(|_| random.below(256) as u8).collect();
        crate::fuzz_image(&code);
        let mut file = good.clone();
        for _ in 0..1 + random.below(6) {
            let at = random.below(file.len() as u64) as usize;
            if let Some(byte) = file.get_mut(at) {
                *byte ^= 1 << random.below(8);
            }
        }
        crate::fuzz_image(&file);
    }
}
