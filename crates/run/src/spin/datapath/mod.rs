//! The sPIN datapath in hardware (rtl/spin), simulated by Verilator, with the clusters of
//! `nicforge-spin` behind it.

mod model;
mod rules;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use nicforge_spin::machine::Machine;
use nicforge_spin::matching::Matched;
use nicforge_spin::memory::GRAIN;
use nicforge_spin::messages::{Counts, Handler, Task};
use nicforge_spin::nic::{
    Datapath, Dropped, Full, Handed, HostRegion, NoDatapath, Options, Range32, Setup, Step, suits,
};

pub use model::{ARRIVED, CREDITED, DROPPED, ENDED, FREED, GRANTED, PICKED, TASK, TO_HOST};
pub use model::{Cycles, Event, Latencies, Model, PACKETS, SOURCES};
pub use rules::words;

use crate::fault::Fault;
use crate::rtl::RtlError;

/// Clusters and message queues of the module.
const CLUSTERS: usize = 2;
const QUEUES: usize = 16;

/// Why there is no datapath in hardware.
#[derive(Debug, thiserror::Error)]
pub enum DatapathError {
    #[error(transparent)]
    Machine(#[from] NoDatapath),
    #[error(
        "the datapath in hardware has none of the faults that --bugs asks for in its scheduler; leave --bugs out"
    )]
    Bugs,
    #[error(transparent)]
    Rtl(#[from] RtlError),
}

impl DatapathError {
    /// The party that has to act.
    pub fn fault(&self) -> Fault {
        match self {
            DatapathError::Rtl(error) => error.fault(),
            _ => Fault::User,
        }
    }
}

/// The datapath.
#[derive(Debug)]
pub struct Rtl {
    model: Model,
    contexts: u32,
    /// Words of tasks under way, by packet and handler.
    words: BTreeMap<(u32, usize), [u32; 16]>,
    latencies: Arc<Mutex<Latencies>>,
}

impl Rtl {
    /// A datapath for a machine; with a seed that is not 0 its streams wait at random.
    ///
    /// # Errors
    /// See [`DatapathError`].
    pub fn new(machine: &Machine, options: &Options, seed: u64) -> Result<Rtl, DatapathError> {
        suits(machine, CLUSTERS, QUEUES)?;
        if options.compat.bugs {
            return Err(DatapathError::Bugs);
        }
        let mut model = Model::new(seed)?;
        model.write("options", 0, &[u32::from(options.full == Full::Drop) << 1]);
        model.write("home_limit", 0, &[machine.home_limit]);
        model.write("patience", 0, &[machine.patience as u32]);
        Ok(Rtl { model, contexts: 0, words: BTreeMap::new(), latencies: Arc::default() })
    }

    /// Latencies that are measured, also when the NIC has the datapath.
    pub fn latencies(&self) -> Arc<Mutex<Latencies>> {
        self.latencies.clone()
    }

    fn step(&mut self, event: Event) -> Option<Step> {
        let Event { user: frame, words: w, data, .. } = event;
        Some(match event.kind {
            TO_HOST => Step::ToHost { frame, bytes: data },
            DROPPED => {
                let why = [Dropped::PacketMemory, Dropped::TooLong, Dropped::NoContext]
                    [w[0] as usize % 3];
                Step::Dropped { frame, why }
            }
            GRANTED => Step::Granted { frame },
            ARRIVED if w[5] != 0 => Step::Dropped {
                frame,
                why: if w[5] == 3 { Dropped::NoCell } else { Dropped::NoQueue },
            },
            ARRIVED => {
                let matched = Matched { context: w[3] as usize, message: w[2], last: w[4] != 0 };
                Step::Described { frame, address: w[0], bytes: w[1], matched }
            }
            TASK => {
                let handed = handed(&w);
                self.words.insert(key(&handed), w);
                Step::Task { handed, packet: data }
            }
            FREED => Step::Freed { address: w[0] },
            model::SENT => Step::Sent { number: w[0] as usize, bytes: data },
            model::WRITTEN => {
                Step::Written { number: w[0] as usize, address: event.user, bytes: data }
            }
            _ => return None,
        })
    }
}

/// A task of its words.
pub fn handed(w: &[u32; 16]) -> Handed {
    let handler = [Handler::Header, Handler::Payload, Handler::Completion][w[1] as usize % 3];
    Handed {
        task: Task {
            number: 0,
            handler,
            context: w[2] as usize,
            message: w[3],
            address: w[4],
            queue: w[0] as usize,
            cluster: w[6] as usize,
        },
        bytes: w[5],
        frees: w[7] != 0,
        function: w[8],
        handler_memory: Range32 { start: w[9], bytes: w[10] },
        host: HostRegion { address: u64::from(w[12]) << 32 | u64::from(w[11]), bytes: w[13] },
        scratchpad: Range32 { start: w[14], bytes: w[15] },
    }
}

fn key(handed: &Handed) -> (u32, usize) {
    (handed.task.address, handed.task.handler as usize)
}

impl Datapath for Rtl {
    fn set_up(&mut self, setup: &Setup) -> Result<(), String> {
        let (set, rules) = words(setup.ruleset.as_ref())?;
        let at = setup.number;
        let [header, payload, completion] = setup.functions.map(Option::unwrap_or_default);
        let memory = &setup.handler_memory;
        self.model.write("sets", at, &[set]);
        self.model.write("rules", 16 * at, &rules);
        self.model.write(
            "context_table",
            10 * at,
            &[
                header,
                payload,
                completion,
                memory.start,
                memory.end - memory.start,
                setup.host.address as u32,
                (setup.host.address >> 32) as u32,
                setup.host.bytes,
                setup.scratchpad.start,
                setup.scratchpad.end - setup.scratchpad.start,
            ],
        );
        self.contexts |= 1 << at | u32::from(setup.serial) << (8 + at);
        self.model.write("contexts", 0, &[self.contexts]);
        self.model.write("apply", 0, &[1]);
        Ok(())
    }

    fn arrive(&mut self, time: u64, frame: u64, bytes: &[u8]) {
        self.model.arrive(frame, time, bytes);
    }

    fn room(&mut self, cluster: usize) {
        self.model.credit(cluster);
    }

    fn end(&mut self, handed: &Handed) {
        if let Some(words) = self.words.remove(&key(handed)) {
            self.model.end(&words);
        }
    }

    fn send(&mut self, number: usize, address: u32, bytes: &[u8]) {
        self.model.send(number, address, bytes);
    }

    fn write_host(&mut self, number: usize, address: u64, bytes: &[u8]) {
        self.model.write_host(number, address, bytes);
    }

    fn next(&self) -> Option<u64> {
        self.model.next()
    }

    fn run(&mut self, from: u64, until: u64) -> Vec<(u64, Step)> {
        let events = self.model.run(from, until);
        events.into_iter().filter_map(|event| Some((event.time, self.step(event)?))).collect()
    }

    fn counts(&mut self) -> (Counts, u32) {
        if let Ok(mut latencies) = self.latencies.lock() {
            *latencies = self.model.latencies();
        }
        let mut read = |name| u64::from(self.model.read(name));
        let counts = Counts {
            packets: read("packets"),
            refused: 0,
            messages: read("messages"),
            ended: read("ended"),
            abandoned: read("abandoned"),
            late: read("late"),
        };
        (counts, self.model.read("most_lines") * GRAIN)
    }
}
