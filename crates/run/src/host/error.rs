//! Why a program could not be built or an event not be run.

use std::path::PathBuf;

use nicforge_codegen::Unsupported;
use nicforge_ir::verify::MAX_FRAME;

use crate::fault::Fault;
use crate::native::NativeError;

/// Internal events that one event from outside may lead to.
pub const MAX_EVENTS: u64 = 10_000_000;

/// Why a program could not be built or an event not be run.
#[derive(Debug, thiserror::Error)]
pub enum HostError {
    #[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))]
    Unsupported(Vec<Unsupported>),
    #[error(
        "`{compiler}` cannot be started ({source}); install it with `apt-get install {package}`"
    )]
    NoCompiler { compiler: &'static str, package: &'static str, source: std::io::Error },
    #[error(
        "internal error in code generation: {compiler} refuses the generated code: {first}\n  generated code and all messages: {}",
        path.display()
    )]
    Refused { compiler: &'static str, first: String, path: PathBuf },
    #[error("the compiled program cannot be loaded: {reason}")]
    Load { reason: String },
    #[error("{path}: {source}")]
    Io { path: PathBuf, source: std::io::Error },
    #[error(
        "table `{table}` with {capacity} entries does not fit in memory; make its capacity smaller"
    )]
    TooLarge { table: String, capacity: u32 },
    #[error("the program has no handler for `{0}`, so such an event cannot be given to it")]
    NoHandler(String),
    #[error("a frame of {length} bytes came in; {MAX_FRAME} are the most")]
    FrameLength { length: usize },
    #[error("a message of {length} bytes came in; the handler takes {expected}")]
    MessageLength { length: usize, expected: usize },
    #[error("there is no room for the packet's headers: a frame has at most {MAX_FRAME} bytes")]
    NoRoom,
    #[error(transparent)]
    Functions(Box<NativeError>),
    #[error(
        "one event led to more than {MAX_EVENTS} others: does the program send itself events for ever?"
    )]
    TooManyEvents,
}

impl HostError {
    /// clang cannot be started.
    pub fn no_compiler(source: std::io::Error) -> HostError {
        let name = nicforge_clang::name();
        HostError::NoCompiler { compiler: name, package: name, source }
    }

    /// The party that has to act.
    pub fn fault(&self) -> Fault {
        match self {
            HostError::NoCompiler { .. } | HostError::Load { .. } | HostError::Io { .. } => {
                Fault::Environment
            }
            _ => Fault::User,
        }
    }
}
