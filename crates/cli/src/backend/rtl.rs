//! SystemVerilog for FPGA cards, simulated by Verilator.

use nicforge_ir::{Program, Verified};
use nicforge_plan::Plan;
use nicforge_target::{Generator, Target};

use super::{Backend, Case, first};
use crate::args::{Build, Run};
use crate::cmd::{fpga, synth};
use crate::context::{Failure, Runtime};
use crate::program::Loaded;

pub struct Rtl;

/// Registers are put where a cycle of this clock needs them.
const FASTEST: f64 = 250e6;

impl Backend for Rtl {
    fn generates(&self) -> Generator {
        Generator::Rtl
    }

    fn accepts(&self, target: &Target) -> Result<(), String> {
        let group = first(target);
        if group.clock.value > FASTEST {
            return Err(format!(
                "designs are generated for clocks up to 250 MHz: give units `{}` such a clock instead of {}",
                group.name, group.clock
            ));
        }
        if target.area.is_none() {
            return Err(
                "codegen rtl needs a section [area], which says what the device has and what designs take of it; \
                 `nicforge targets show u280` has one"
                    .to_string(),
            );
        }
        Ok(())
    }

    fn stands_in(&self, _: &Target) -> Option<&'static str> {
        Some("RTL simulated by Verilator")
    }

    fn is_hardware(&self) -> bool {
        true
    }

    fn build(
        &self,
        target: &Target,
        args: &Build,
        loaded: &Loaded,
        _: &Runtime,
    ) -> Result<(), Failure> {
        fpga::build(target, args, loaded)
    }

    fn synthesize(&self, target: &Target, args: &Build, loaded: &Loaded) -> Result<(), Failure> {
        synth::run(target, args, loaded)
    }

    fn run(&self, target: &Target, args: &Run, loaded: &Loaded, _: Runtime) -> Result<(), Failure> {
        fpga::run(target, args, loaded)
    }

    fn verify(&self, target: &Target, case: Case) -> Result<(), Failure> {
        fpga::verify(target, self.stands_in(target), &case)
    }

    fn price(
        &self,
        plan: &mut Plan,
        source: &Verified<Program>,
        target: &Target,
    ) -> Result<(), Failure> {
        fpga::price(plan, source, target)
    }
}
