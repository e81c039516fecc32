//! Instructions that both programs execute over a whole capture.
//!
//! The objects are those of a live run (`NF_MODE` 0), loaded into the kernel so that the verifier
//! has accepted them and their maps are real, and then interpreted. Verdicts and frames are
//! compared here too: with [`crate::agree`] this also says that the interpreter does what the
//! kernel does.

use nicforge_isa::ebpf::{Insn, Machine, Memory, decode};
use nicforge_run::compile::Mode;
use nicforge_run::xdp::Loaded;

use crate::case::{Author, Case, interface_of};
use crate::host::Outside;
use crate::{Failure, at};

/// More than any of the programs may execute for a packet.
const LIMIT: u64 = 1_000_000;

/// Instructions executed for each packet, in the order of the capture.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub generated: Vec<u64>,
    pub by_hand: Vec<u64>,
}

/// What a run did: verdict, port of a redirect, frame.
type Outcome = (u64, Option<u64>, Vec<u8>);

/// Counts both programs.
///
/// # Errors
/// A program faults in the interpreter, or the two do something different.
pub fn count(case: &Case) -> Result<Counts, Failure> {
    let generated = Side::new(case, Author::Generated)?;
    let by_hand = Side::new(case, Author::ByHand)?;
    let mut counts = Counts::default();
    for (number, (event, port, frame)) in case.packets().enumerate() {
        let what = format!("{}, packet {} in the interpreter", case.name, number + 1);
        let (want, executed) = generated.run(frame, port, event.time_ns).map_err(at(&what))?;
        counts.generated.push(executed);
        let (got, executed) = by_hand.run(frame, port, event.time_ns).map_err(at(&what))?;
        counts.by_hand.push(executed);
        if want != got {
            return Err(Failure(format!(
                "{what}: generated code gives {want:?}, hand-written code {got:?}"
            )));
        }
    }
    Ok(counts)
}

/// A loaded program and its instructions.
struct Side {
    /// Keeps the maps alive that the instructions name.
    _loaded: Loaded,
    program: Vec<Insn>,
}

impl Side {
    fn new(case: &Case, author: Author) -> Result<Side, Failure> {
        let loaded = case.load(author, Mode::Live)?;
        let bytes = loaded
            .instructions("net_recv")
            .ok_or_else(|| Failure(format!("{}: there is no handler of net_recv", case.name)))?;
        let program = decode(&bytes).map_err(at(case.name))?;
        Ok(Side { _loaded: loaded, program })
    }

    fn run(
        &self,
        frame: &[u8],
        port: u32,
        time_ns: u64,
    ) -> Result<(Outcome, u64), nicforge_isa::ebpf::Fault> {
        let mut memory = Memory::default();
        let mut outside = Outside::new(&mut memory, frame, interface_of(port), time_ns);
        let machine = Machine { program: &self.program, limit: LIMIT };
        let run = machine.run(&mut memory, &mut outside)?;
        outside.flush(&memory)?;
        let verdict = run.result & 0xffff_ffff;
        Ok(((verdict, outside.port, outside.frame(&memory).to_vec()), run.executed))
    }
}
