//! The sPIN NIC that `--machine` names: a target with a section `[spin]`, built in or a file.

use nicforge_driver::{Failure, targets};
use nicforge_run::spin::{Api, Layout};
use nicforge_spin::machine::Machine;

/// A machine, and how images of handlers are laid out for it.
pub struct Chosen {
    pub machine: Machine,
    pub layout: Layout,
}

/// The machine by name or file.
pub fn find(name: &str) -> Result<Chosen, Failure> {
    let target = targets::find(name)?;
    let layout = Layout::of(&target).map_err(|e| Failure::user(e.to_string()))?;
    let machine = Machine::from_target(&target).map_err(|e| Failure::user(e.to_string()))?;
    Ok(Chosen { machine, layout })
}

/// The published machine whose headers these are.
pub fn published(api: Api) -> Result<Chosen, Failure> {
    find(match api {
        Api::Pspin => "pspin",
        Api::Fpspin => "fpspin",
    })
}
