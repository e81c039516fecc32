//! The seam for other engines: handlers that are functions here, with times of their own.

use std::collections::VecDeque;

use super::*;

/// Sends every packet back with its first byte changed, 30 cycles after its start; the handler
/// takes 40.
#[derive(Debug, Default)]
struct Echo {
    /// Units that have started: when they go on, and whether they have sent.
    running: VecDeque<(u64, usize, bool)>,
    ran: Vec<u64>,
}

impl Engine for Echo {
    fn boot(&mut self, world: &mut World, _cycles: u64) -> Result<(), BootError> {
        self.ran = vec![0; world.machine.hpus()];
        Ok(())
    }

    fn next(&mut self) -> Option<u64> {
        self.running.iter().map(|(time, ..)| *time).min()
    }

    fn run(&mut self, world: &mut World, until: u64) {
        let first = self.running.iter().enumerate().min_by_key(|(_, (time, hpu, _))| (*time, *hpu));
        let Some((at, &(now, hpu, sent))) = first.filter(|(_, (time, ..))| *time < until) else {
            return;
        };
        if sent {
            self.running.remove(at);
            return world.end(hpu, now, None);
        }
        let registers = world.task(hpu).expect("a task").registers;
        let (copy, bytes) = (registers[4], registers[5]);
        world.memory(hpu, copy, 1, true).expect("its packet")[0] ^= 0xff;
        assert!(world.memory(hpu, copy + 256, 1, false).is_err());
        let command = Command { info: 2, words: [0, 0, copy, 0, bytes, 0, 0] };
        if world.command(hpu, now, command).is_ok() {
            self.running[at] = (now + 10, hpu, true);
            self.ran[hpu] += 1;
        }
    }

    fn start(&mut self, world: &mut World, hpu: usize) {
        let now = world.task(hpu).expect("a task").from;
        world.begin(hpu, now);
        self.running.push_back((now + 30, hpu, false));
    }

    fn wake(&mut self, _world: &mut World, _hpu: usize, _now: u64) {}

    fn instructions(&self, hpu: usize) -> u64 {
        self.ran[hpu]
    }

    fn pc(&self, _hpu: usize) -> u32 {
        0
    }

    fn counts(&self) -> (u64, u64) {
        (0, 0)
    }
}

#[test]
fn another_engine_runs_handlers_in_the_same_nic() {
    let Some(image) = image(".global ph\nph: ret\n") else { return };
    let host = Box::new(SparseMemory::default());
    let mut nic =
        Nic::with_engine(&machine("pspin"), Options::default(), host, Box::new(Echo::default()));
    nic.add_context(context(&image)).unwrap();
    for number in 0..20 {
        nic.arrive(packet(number * 60, 256, 3, number == 19));
    }
    nic.run_until(Until::Idle);
    let out = nic.take_out();
    assert_eq!((fed_back(&out), nic.stats().sent, faults(&out)), (20, 20, vec![]));
    assert!(records(&out).iter().all(|record| record.times.ended - record.times.started == 40));
    assert!(
        out.iter()
            .any(|out| matches!(out, Out::Sent { frame, .. } if frame[..2] == [3 ^ 0xff, 1 ^ 3]))
    );
    assert_clean(&mut nic);
}
