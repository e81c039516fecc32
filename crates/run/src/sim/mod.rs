//! Generated code for the simulator, and the simulator as a target that can be compared with the
//! interpreter.

mod verify;

use nicforge_ir::{EventId, Program, TableId, Verified};
use nicforge_sim::{Effect, HandlerError, Handlers, Line, Message, Step, Trace};

use crate::host::{HostError, HostOptions, HostProgram, StepEffect, Stepper, Watch};

pub use verify::{SimRunError, verify_sim};

/// A program in this process that counts what it does: [`Stepper`] behind the simulator's
/// interface.
pub struct Compiled<'p> {
    program: &'p Verified<Program>,
    stepper: Stepper,
}

impl<'p> Compiled<'p> {
    /// Generates, compiles and loads. `keep`: outputs are kept.
    pub fn new(program: &'p Verified<Program>, keep: bool) -> Result<Compiled<'p>, HostError> {
        let options = HostOptions { watch: Watch::Counts, ..HostOptions::default() };
        let built = HostProgram::build_with(program, options)?;
        let mut stepper = Stepper::new(built, keep);
        stepper.count_zeros(program);
        Ok(Compiled { program, stepper })
    }

    /// The program with its tables and outputs.
    pub fn stepper(&mut self) -> &mut Stepper {
        &mut self.stepper
    }
}

impl Handlers for Compiled<'_> {
    fn lines(&self) -> Vec<Line> {
        let blocks = self.stepper.artifact().blocks.iter();
        blocks.map(|block| Line { handler: block.handler, insts: block.insts.clone() }).collect()
    }

    fn steer_by(&mut self, event: EventId, param: usize, number: bool) {
        self.stepper.steer_by(self.program, event, param, number);
    }

    fn arrive(&mut self, port: u32, frame: &[u8], time_ns: u64, seed: u64) -> Message {
        Message(self.stepper.arrive(port, frame, time_ns, seed))
    }

    fn tick(&mut self, timer: EventId, time_ns: u64, seed: u64) -> Message {
        Message(self.stepper.tick(timer, time_ns, seed))
    }

    fn run(&mut self, message: Message, trace: &mut Trace) -> Result<(), HandlerError> {
        let effects = self.stepper.run(message.0).iter().map(effect);
        trace.effects.extend(effects);
        trace.steps.extend(self.stepper.trace().iter().filter_map(|item| {
            let table = TableId::from_u32(item.id.into());
            match item.kind {
                1 => Some(Step::Line(item.id.into())),
                2 => Some(Step::Read { table, key: item.amount }),
                3 => Some(Step::Write { table, key: (item.amount != 0).then_some(item.amount) }),
                _ => None,
            }
        }));
        Ok(())
    }

    fn discard(&mut self, message: Message) {
        self.stepper.discard(message.0);
    }
}

fn effect(effect: &StepEffect) -> Effect {
    match *effect {
        StepEffect::Generate { event, message, steer, bytes, zeros } => {
            Effect::Generate { event, message: Message(message), steer, bytes, zeros }
        }
        StepEffect::Send { port, bytes } => Effect::Send { port, bytes },
        StepEffect::Drop { reason } => Effect::Drop { reason },
        StepEffect::NoRoom => Effect::NoRoom,
        StepEffect::Stack { bytes } => Effect::Stack { bytes },
        StepEffect::Host { bytes } => Effect::Host { bytes },
        StepEffect::Made { port, bytes } => Effect::Made { port, bytes },
        StepEffect::ToHost { bytes } => Effect::ToHost { bytes },
    }
}
