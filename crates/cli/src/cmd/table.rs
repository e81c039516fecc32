//! `nicforge table`: the tables of a running program.

use crate::args::Table;
use crate::context::Failure;

pub fn run(_args: Table) -> Result<(), Failure> {
    Err(Failure::usage("no program is running"))
}
