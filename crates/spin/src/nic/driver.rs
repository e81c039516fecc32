//! The registers between one handler unit and the NIC: the task it has, its commands, its copies.
//!
//! Reading the function's address waits for a task, reading the doorbell ends the handler, reading
//! "issue" starts a command. What the NIC has to know of it goes out as a [`Request`]; what a unit
//! waits for is tried again when the NIC says that something changed.
//!
//! Source: facts of PsPIN's handler unit driver (RTL); register numbers are its interface.

use nicforge_isa::rv32::Trap;

/// The access cannot be made yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotYet;

/// Requests of a unit to the NIC.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Ask {
    /// The command with this number in the unit.
    Command {
        id: u32,
        command: Command,
    },
    Copy {
        id: u32,
        from: u32,
        to: u32,
        bytes: u32,
    },
    /// The handler starts.
    Started,
    /// The handler has ended.
    Done,
    /// The handler did something that ends it; `Done` follows, now or from its trap handler.
    Failed(Failure),
    Text(Vec<u8>),
}

/// Why a handler fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    Trap(Trap),
    /// It ran for this many cycles.
    Watchdog(u64),
    /// It, or its runtime, wrote this to the error register.
    Reported(u32),
    /// It asked for the program's end, as failed assertions do.
    Exit,
    /// It ran for so long by this computer's clock.
    Late {
        milliseconds: u64,
    },
    /// This computer refused what it did.
    Refused {
        pc: u32,
        address: u32,
        reason: &'static str,
    },
}

/// Something a unit did, at its time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Request {
    pub time: u64,
    pub hpu: usize,
    /// The task that had the unit.
    pub task: u64,
    pub ask: Ask,
}

/// A command as its registers say.
#[derive(Default, Clone, Copy, Debug, PartialEq, Eq)]
pub struct Command {
    pub info: u32,
    pub words: [u32; 7],
}

/// The task a unit has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Assigned {
    pub number: u64,
    /// Whose image runs.
    pub space: usize,
    /// From the function's address to the flow's number, as handlers read them.
    pub registers: [u32; 20],
    /// When the unit may begin.
    pub from: u64,
    /// Cycles after which it is stopped.
    pub watchdog: Option<u64>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    /// No handler runs.
    #[default]
    Idle,
    /// The next read of the function's address gets it.
    Granted,
    Running,
}

/// Registers and commands of one unit.
#[derive(Clone, Debug, Default)]
pub struct Driver {
    task: Option<Assigned>,
    state: State,
    /// Waits for a task.
    pub(crate) waits_for_task: bool,
    command: Command,
    next_command: u32,
    /// Commands and copies under way, by task.
    commands: Vec<(u32, u64)>,
    copies: Vec<(u32, u64)>,
    limit: usize,
    doorbell_cycles: u64,
    /// A task that has ended, but not all it started.
    held: Option<u64>,
    tested: u32,
    /// Source, destination, bytes.
    copy: [u32; 3],
    next_copy: u32,
    text: Vec<u8>,
    /// Word that was read last, which inexact reads give in hardware.
    last: u32,
    /// Times a command had to wait for another of the unit, and whether one does.
    pub(crate) stalls: u64,
    stalled: bool,
    /// Sub-word reads and tests of commands are as faulty as in hardware.
    faults: bool,
}

const DOORBELL: u32 = 0x50;
const ERROR: u32 = 0x54;
const ISSUE: u32 = 0x80;
const WAIT: u32 = 0x84;
const TEST: u32 = 0x88;
const INFO: u32 = 0x8c;
const WORDS: u32 = 0x90;

impl Driver {
    pub(crate) fn new(limit: usize, doorbell_cycles: u64, faults: bool) -> Driver {
        Driver { limit, doorbell_cycles, faults, ..Driver::default() }
    }

    /// The task that runs, or will when the unit asks for one.
    pub fn task(&self) -> Option<&Assigned> {
        self.task.as_ref()
    }

    pub(crate) fn assign(&mut self, task: Assigned) {
        self.task = Some(task);
    }

    pub(crate) fn grant(&mut self) {
        self.state = State::Granted;
        self.waits_for_task = false;
    }

    /// A handler runs (or the core is about to enter it).
    #[inline]
    pub fn busy(&self) -> bool {
        self.state != State::Idle
    }

    fn number(&self) -> u64 {
        self.task.map_or(u64::MAX, |task| task.number)
    }

    /// Reads a register of the task or of commands, at an offset from the first.
    ///
    /// # Errors
    /// The unit has to wait.
    pub(crate) fn load(
        &mut self,
        at: u32,
        size: u32,
        now: u64,
        asks: &mut Vec<(u64, Ask)>,
    ) -> Result<u32, NotYet> {
        let word = at & !3;
        let value = match word {
            0 => match self.state {
                State::Idle => {
                    self.waits_for_task = true;
                    return Err(NotYet);
                }
                State::Granted | State::Running => {
                    self.state = State::Running;
                    self.task.map_or(0, |task| task.registers[0])
                }
            },
            DOORBELL => {
                if self.state == State::Running {
                    if self.held.is_some() {
                        return Err(NotYet);
                    }
                    self.end(now + self.doorbell_cycles, asks);
                }
                0
            }
            ISSUE => self.issue(now, asks)?,
            TEST => {
                let under_way = match self.faults {
                    true => !self.commands.is_empty(),
                    false => !self.is_done(self.tested),
                };
                u32::from(!under_way)
            }
            INFO => self.command.info,
            // The hardware's decoder knows the first byte of each register only.
            ..DOORBELL if self.faults && at != word => self.last,
            WORDS..=0xa8 => self.command.words[((word - WORDS) / 4) as usize],
            _ => {
                let register = (word / 4) as usize;
                self.task
                    .as_ref()
                    .and_then(|task| task.registers.get(register))
                    .copied()
                    .unwrap_or(0)
            }
        };
        self.last = value;
        let shifted = value >> ((at & 3) * 8);
        Ok(match size {
            1 => shifted & 0xff,
            2 => shifted & 0xffff,
            _ => shifted,
        })
    }

    /// Writes a register; those of the task ignore it.
    ///
    /// # Errors
    /// The unit has to wait.
    pub(crate) fn store(
        &mut self,
        at: u32,
        value: u32,
        now: u64,
        asks: &mut Vec<(u64, Ask)>,
    ) -> Result<(), NotYet> {
        match at & !3 {
            ERROR if self.state == State::Running => {
                asks.push((now, Ask::Failed(Failure::Reported(value))))
            }
            WAIT if !self.is_done(value) => return Err(NotYet),
            TEST => self.tested = value,
            INFO => self.command.info = value,
            word @ WORDS..=0xa8 => self.command.words[((word - WORDS) / 4) as usize] = value,
            _ => {}
        }
        Ok(())
    }

    /// Starts a command that does not stand in the registers.
    ///
    /// # Errors
    /// As [`Driver::issue`].
    pub(crate) fn give(
        &mut self,
        command: Command,
        now: u64,
        asks: &mut Vec<(u64, Ask)>,
    ) -> Result<u32, NotYet> {
        self.state = if self.state == State::Granted { State::Running } else { self.state };
        self.command = command;
        self.issue(now, asks)
    }

    pub(crate) fn is_done(&self, id: u32) -> bool {
        self.commands.iter().all(|(other, _)| *other != id)
    }

    /// Starts the command in the registers.
    ///
    /// # Errors
    /// As many are under way as can be, or a task before this one still has some.
    pub(crate) fn issue(&mut self, now: u64, asks: &mut Vec<(u64, Ask)>) -> Result<u32, NotYet> {
        if self.state != State::Running {
            return Ok(0);
        }
        if self.commands.len() >= self.limit || self.held.is_some() {
            self.stalls += u64::from(!std::mem::replace(&mut self.stalled, true));
            return Err(NotYet);
        }
        self.stalled = false;
        self.next_command = self.next_command.wrapping_add(1);
        let id = self.next_command;
        self.commands.push((id, self.number()));
        asks.push((now, Ask::Command { id, command: self.command }));
        Ok(id)
    }

    /// Reads a register of the copy engine.
    ///
    /// # Errors
    /// The unit has to wait.
    pub(crate) fn load_copy(
        &mut self,
        at: u32,
        now: u64,
        asks: &mut Vec<(u64, Ask)>,
    ) -> Result<u32, NotYet> {
        Ok(match at & !3 {
            0 => self.copy[0],
            8 => self.copy[1],
            16 => self.copy[2],
            24 if self.state == State::Running => {
                if self.held.is_some() {
                    return Err(NotYet);
                }
                self.next_copy = self.next_copy.wrapping_add(1);
                let id = self.next_copy;
                self.copies.push((id, self.number()));
                let [from, to, bytes] = self.copy;
                asks.push((now, Ask::Copy { id, from, to, bytes }));
                id
            }
            // Copies end in the order they were started.
            32 => self.last_copied(),
            _ => 0,
        })
    }

    /// Starts a copy that does not stand in the registers.
    ///
    /// # Errors
    /// A task before this one still has something under way.
    pub(crate) fn give_copy(
        &mut self,
        copy: [u32; 3],
        now: u64,
        asks: &mut Vec<(u64, Ask)>,
    ) -> Result<u32, NotYet> {
        self.state = if self.state == State::Granted { State::Running } else { self.state };
        self.copy = copy;
        self.load_copy(24, now, asks)
    }

    /// The last copy that is done, all before it too.
    pub(crate) fn last_copied(&self) -> u32 {
        self.copies.first().map_or(self.next_copy, |(id, _)| id.wrapping_sub(1))
    }

    /// A task before this one still has something under way, so that this one's end has to wait.
    pub(crate) fn held(&self) -> bool {
        self.held.is_some()
    }

    pub(crate) fn store_copy(&mut self, at: u32, value: u32) {
        match at & !3 {
            0 => self.copy[0] = value,
            8 => self.copy[1] = value,
            16 => self.copy[2] = value,
            _ => {}
        }
    }

    /// A character of output.
    pub(crate) fn print(&mut self, character: u8, now: u64, asks: &mut Vec<(u64, Ask)>) {
        self.text.push(character);
        if character == b'\n' || self.text.len() >= 256 {
            asks.push((now, Ask::Text(std::mem::take(&mut self.text))));
        }
    }

    /// The handler ends, by itself or not.
    pub(crate) fn end(&mut self, now: u64, asks: &mut Vec<(u64, Ask)>) {
        let number = self.number();
        if !self.text.is_empty() {
            asks.push((now, Ask::Text(std::mem::take(&mut self.text))));
        }
        if self.commands.iter().chain(&self.copies).any(|(_, task)| *task == number) {
            self.held = Some(number);
        }
        self.state = State::Idle;
        asks.push((now, Ask::Done));
        self.task = None;
    }

    /// A command is done.
    pub(crate) fn retire(&mut self, id: u32) {
        self.commands.retain(|(other, _)| *other != id);
    }

    /// A copy is done.
    pub(crate) fn copied(&mut self, id: u32) {
        self.copies.retain(|(other, _)| *other != id);
    }

    /// The feedback of a task has left.
    pub(crate) fn released(&mut self, task: u64) {
        if self.held == Some(task) {
            self.held = None;
        }
    }
}
