//! Whether the kernel takes a program that lacks nothing: generated, compiled and, where this
//! process may, given to its verifier.

use nicforge_codegen::{LineStyle, Unsupported, xdp};
use nicforge_ir::{Direction, Program};
use nicforge_run::compile::{CompileError, Mode};
use nicforge_run::xdp::compile_bpf;
use nicforge_run::xdp::{XdpError, refusal};
use serde_json::{Value, json};

use crate::Runtime;
use crate::program::{self, Loaded};

/// Why a program does not run in the kernel.
#[derive(Debug)]
pub struct Refused {
    pub place: String,
    pub reason: String,
    pub remedy: String,
}

impl Refused {
    pub fn json(&self) -> Value {
        json!({ "place": self.place, "reason": self.reason, "remedy": self.remedy })
    }
}

/// What the kernel has against a program of one stage; programs of several are tried when they are
/// planned.
pub fn in_kernel(loaded: &Loaded, runtime: &Runtime) -> Option<Refused> {
    let compiled = program::lower(&loaded.program).ok()?;
    let planned = |handler: &nicforge_ir::Handler| {
        handler.side.is_some() || compiled.events[handler.event].direction != Direction::In
    };
    if compiled.handlers.values().any(planned) {
        return None;
    }
    let artifact = match xdp::generate(&compiled, LineStyle::Directives) {
        Ok(artifact) => artifact,
        Err(errors) => return errors.first().map(|error| unsupported(&compiled, error)),
    };
    match compile_bpf(&compiled.name, &artifact.source, Mode::Live, &runtime.target_headers("xdp"))
    {
        Ok(object) => refusal(&object).and_then(|error| of_kernel(&compiled, &error)),
        Err(CompileError::Stack { place }) => Some(Refused {
            place,
            reason: "more in variables at once than the 512 bytes of stack that BPF has"
                .to_string(),
            remedy: "make structs smaller, or look entries up and use them in smaller steps"
                .to_string(),
        }),
        // Without a compiler nothing is known.
        Err(_) => None,
    }
}

fn unsupported(program: &Program, error: &Unsupported) -> Refused {
    let place = program.place(error.span).to_string();
    Refused { place, reason: error.message.clone(), remedy: error.help.clone() }
}

fn of_kernel(program: &Program, error: &XdpError) -> Option<Refused> {
    let XdpError::Refused { source_line, reason, .. } = error else { return None };
    let place =
        source_line.as_ref().map_or(program.name.clone(), |(file, line)| format!("{file}:{line}"));
    Some(Refused {
        place,
        reason: format!("the kernel's verifier: {reason}"),
        remedy: remedy(reason).to_string(),
    })
}

/// Remedies against a refusal of the verifier.
pub fn remedy(reason: &str) -> &'static str {
    if reason.contains("too large") || reason.contains("too complex") {
        "give loops fewer trips or fewer ways through them, or do part of the work behind a queue (nf_enqueue): the verifier walks a \
         million instructions at most"
    } else {
        "read what is refused there into a variable of its own, or do that part on the host (NF_ON(host))"
    }
}
