//! SystemVerilog for FPGA cards, simulated by Verilator.

use nicforge_codegen::rtl::{LONGEST, SHORTEST};
use nicforge_ir::InputEvent;
use nicforge_run::rtl::{Drive, takes};
use nicforge_target::{Generator, Target};

use super::{Backend, Build, Product, first};
use crate::verify::{self, Case, Comparison};
use crate::{Failure, Loaded, Runtime, design, pipelines};

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
        build: &Build,
        loaded: &Loaded,
        _: &Runtime,
    ) -> Result<Product, Failure> {
        let made = pipelines::design(build.planned, &loaded.program, target)?;
        if build.text {
            let files = made.artifact().files.iter();
            let text = files.map(|(name, text)| format!("// ---- {name}\n{text}\n"));
            return Ok(Product::Text(text.collect()));
        }
        let path = build.path(&loaded.program.name);
        made.write(&path).map_err(|e| design::failure(&loaded.program, e))?;
        let form = design::form_of(&loaded.program, &made.artifact().form);
        Ok(Product::Written(path, Some(form)))
    }

    /// With streams that wait at random.
    fn verify(&self, target: &Target, case: &Case) -> Result<Comparison, Failure> {
        let taken: Vec<InputEvent> =
            case.events.iter().filter(|event| takes(event)).cloned().collect();
        let made = pipelines::design(case.planned, case.subject, target)?;
        let drive = Drive { pressure: 1, ..Drive::default() };
        let (_, differences) = made
            .verify(case.source, case.entries, &taken, &drive)
            .map_err(|e| design::failure(case.source, e))?;
        let agreement = verify::of_differences(&case.given(&taken), taken.len(), differences)?;
        Ok(Comparison {
            stands_in: self.stands_in(target),
            limits: format!("the design takes (frames under {SHORTEST} or over {LONGEST} bytes)"),
            ..Comparison::of(target, agreement, case.events.len() - taken.len())
        })
    }
}
