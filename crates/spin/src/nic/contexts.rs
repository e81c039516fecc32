//! Execution contexts: set up, and their memory as the host sees it.

use std::ops::Range;

use nicforge_target::PacketMemory;

use super::memories::Space;
use super::{Context, Event, HostRegion, LAST, Nic, NicError};
use crate::machine::{Machine, map};
use crate::matching::{RULESETS, Ruleset};
use crate::messages::{self, Config, Faults};

/// A context, set up.
#[derive(Clone, Debug)]
pub(super) struct Tenant {
    pub space: usize,
    /// Addresses; header, payload, completion.
    pub functions: [Option<u32>; 3],
    pub handler_memory: Range<u32>,
    pub host: HostRegion,
    /// Offset in every cluster's memory.
    pub scratchpad: Range<u32>,
    pub watchdog: Option<u64>,
    pub serial: bool,
    pub image: usize,
}

impl Nic {
    /// Sets a context up: loads its image, unless it shares one, and lets it start. Gives its
    /// number, which is its ruleset's.
    ///
    /// # Errors
    /// See [`NicError`].
    pub fn add_context(&mut self, context: Context) -> Result<usize, NicError> {
        let number = self.tenants.len();
        if !self.is_idle() {
            return Err(NicError::Busy);
        }
        if number >= RULESETS && context.ruleset.is_some() {
            return Err(NicError::TooMany(number));
        }
        let function = |name: &Option<String>| match name {
            None => Ok(None),
            Some(name) => match context.image.symbol(name) {
                Some(symbol) => Ok(Some(symbol.address)),
                None => Err(NicError::NoHandler(name.clone())),
            },
        };
        let handlers = &context.handlers;
        let functions = [
            function(&handlers.header)?,
            function(&handlers.payload)?,
            function(&handlers.completion)?,
        ];
        let machine = &self.world.machine;
        if let Some(Range { start, end }) = context.handler_memory {
            let inside = start >= map::L2 && start <= end && end <= machine.packets_at();
            if !inside {
                return Err(NicError::Memory { address: start, bytes: end.saturating_sub(start) });
            }
        }
        let first = self.tenants.last().map_or(map::L1_SCRATCHPADS, |tenant| tenant.scratchpad.end);
        let scratchpad = first
            ..first.saturating_add(
                context.scratchpad.checked_next_multiple_of(64).unwrap_or(u32::MAX),
            );
        if scratchpad.end > machine.l1_bytes {
            let (wanted, room) =
                (scratchpad.end - map::L1_SCRATCHPADS, machine.l1_bytes - map::L1_SCRATCHPADS);
            return Err(NicError::Scratchpad { wanted, room });
        }
        let bugs = self.options.compat.bugs;
        let (space, image) = match context.shares {
            Some(other) => {
                let tenant = self.tenants.get(other).ok_or(NicError::NoContext(other))?;
                (tenant.space, tenant.image)
            }
            None => {
                let all = !(bugs && machine.packets_in == PacketMemory::Slots);
                let handler = self.world.memories.handler()?;
                self.world.memories.spaces.push(Space::new(machine, context.image, all, handler)?);
                if let Err(error) = self.engine.boot(&mut self.world, self.options.boot_cycles) {
                    self.world.memories.spaces.pop();
                    self.world.asks.clear();
                    return Err(error.into());
                }
                self.images.push(context.image.clone());
                (self.world.memories.spaces.len() - 1, self.images.len() - 1)
            }
        };
        let shared = self.world.memories.spaces[space].shared_end.next_multiple_of(64);
        let rest = map::L2 + shared.min(self.world.machine.l2_bytes)
            ..map::L2 + self.world.machine.l2_bytes;
        let handlers = messages::Context {
            weight: context.weight,
            header: functions[0].is_some(),
            completion: functions[2].is_some(),
            serial: context.serial,
        };
        let watchdog = context.watchdog.or(self.options.watchdog).filter(|_| !bugs);
        self.tenants.push(Tenant {
            space,
            functions,
            handler_memory: context.handler_memory.unwrap_or(rest),
            host: context.host,
            scratchpad,
            watchdog,
            serial: context.serial,
            image,
        });
        if let Some(place) = self.matcher.rulesets.get_mut(number) {
            *place = context.ruleset;
        }
        self.scheduler.add_context(handlers);
        if let Err(reason) = self.set_up_datapath(number) {
            return Err(NicError::Datapath(reason));
        }
        // What was printed while the image started.
        let now = self.now;
        self.world.requests.iter_mut().for_each(|request| request.time = now);
        self.serve();
        Ok(number)
    }

    /// Changes what frames a context gets, from the next one on; `None` if only those that come
    /// with their message.
    ///
    /// # Errors
    /// There is no such context, or rules do not reach it.
    pub fn set_ruleset(
        &mut self,
        context: usize,
        ruleset: Option<Ruleset>,
    ) -> Result<(), NicError> {
        if context >= self.tenants.len() {
            return Err(NicError::NoContext(context));
        }
        *self.matcher.rulesets.get_mut(context).ok_or(NicError::TooMany(context))? = ruleset;
        self.set_up_datapath(context).map_err(NicError::Datapath)
    }

    /// Handler memory of a context, as addresses.
    ///
    /// # Errors
    /// There is no such context.
    pub fn handler_memory(&self, context: usize) -> Result<Range<u32>, NicError> {
        let tenant = self.tenants.get(context).ok_or(NicError::NoContext(context))?;
        Ok(tenant.handler_memory.clone())
    }

    /// The host reads NIC memory as a context sees it (cluster 0 where addresses mean the own
    /// cluster's).
    ///
    /// # Errors
    /// There is no such context, or no memory.
    pub fn read(&self, context: usize, address: u32, bytes: u32) -> Result<&[u8], NicError> {
        let tenant = self.tenants.get(context).ok_or(NicError::NoContext(context))?;
        let place = self.world.memories.place(0, address, bytes);
        let place = place.ok_or(NicError::Memory { address, bytes })?;
        Ok(self.world.memories.bytes(tenant.space, place, bytes))
    }

    /// The host writes NIC memory, now.
    ///
    /// # Errors
    /// As [`Nic::read`].
    pub fn write(&mut self, context: usize, address: u32, bytes: &[u8]) -> Result<(), NicError> {
        let tenant = self.tenants.get(context).ok_or(NicError::NoContext(context))?;
        let size = bytes.len() as u32;
        let place = self.world.memories.place(0, address, size);
        let place = place.ok_or(NicError::Memory { address, bytes: size })?;
        self.world.memories.write(tenant.space, place, bytes);
        Ok(())
    }

    /// Writes at a later cycle; times of calls may not go back.
    ///
    /// # Errors
    /// As [`Nic::read`].
    pub fn write_at(
        &mut self,
        time: u64,
        context: usize,
        address: u32,
        bytes: &[u8],
    ) -> Result<(), NicError> {
        self.read(context, address, bytes.len() as u32)?;
        self.host_stores.push_back((context, address, bytes.to_vec()));
        self.at(time.max(self.now).min(LAST), Event::HostStore(context));
        Ok(())
    }
}

/// The scheduler of a machine, without contexts.
pub(super) fn config(machine: &Machine, bugs: bool) -> Config {
    Config {
        contexts: Vec::new(),
        queues: machine.queues,
        cells: machine.cells,
        clusters: machine.clusters,
        home_limit: machine.home_limit,
        patience: machine.patience,
        faults: Faults { shared_queues: bugs, drains_early: bugs, no_shares: bugs },
    }
}
