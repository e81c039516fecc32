//! What can go wrong with a program in the kernel.

use std::io;
use std::path::PathBuf;

use crate::compile::CompileError;
use crate::fault::Fault;
use crate::host::HostError;

/// Why an XDP program could not be loaded, attached, fed or read.
#[derive(Debug, thiserror::Error)]
pub enum XdpError {
    #[error(
        "no permission to {what}: run as root, or with the capabilities CAP_BPF, CAP_NET_ADMIN and CAP_PERFMON; a capture through \
         interfaces (`run --pcap`, plans of several stages) takes CAP_NET_RAW and CAP_SYS_ADMIN too"
    )]
    Privilege { what: String },
    #[error("this kernel lacks {what}: {how}")]
    Feature { what: String, how: String },
    /// `source_line` is the file (its last path component, all the kernel tells) and line of the
    /// refused instruction.
    #[error(
        "{place}the kernel's verifier refuses program `{program}`: {reason}\n  complete log: {log}",
        place = source_line.as_ref().map(|(file, line)| format!("{file}:{line}: ")).unwrap_or_default(),
        log = log_path.display()
    )]
    Refused {
        program: String,
        source_line: Option<(String, u32)>,
        reason: String,
        log_path: PathBuf,
    },
    #[error("internal error: the generated object does not keep its contract: {0}")]
    Contract(String),
    /// An object that somebody else made.
    #[error("libbpf does not take the object: {0}")]
    Object(String),
    #[error(
        "interface `{interface}` already runs XDP program {id}{name}; {remedy}",
        remedy = match pinned {
            Some(pinned) => format!(
                "it is pinned: `nicforge detach {pinned}` ends it, `run --pin={pinned}` takes its place"
            ),
            None => format!(
                "remove it with `ip link set dev {interface} xdp off`, or stop the process that attached it (`bpftool link \
                 list`)"
            ),
        }
    )]
    Busy { interface: String, id: u32, name: String, pinned: Option<String> },
    #[error(
        "nothing is pinned at `{}`; pinned: {}",
        folder.display(),
        if known.is_empty() { "nothing" } else { known }
    )]
    NotPinned { folder: PathBuf, known: String },
    #[error(
        "`{}` holds `{other}`, which is nothing of `nicforge run --pin`: give another folder",
        folder.display()
    )]
    NotOurs { folder: PathBuf, other: String },
    #[error("a `nicforge run` works with what is pinned at `{}`: end it first", .0.display())]
    PinsUsed(PathBuf),
    #[error(
        "what is pinned at `{folder}` runs on {on}: give the same interfaces, another name (`--pin=NAME`), or end it with \
         `nicforge detach {folder}`", folder = folder.display()
    )]
    PinnedElsewhere { folder: PathBuf, on: String },
    #[error(
        "what is pinned at `{folder}` is of another version of Nicforge: end it with `nicforge detach {folder}`, and \
         start again", folder = .0.display()
    )]
    PinnedForeign(PathBuf),
    #[error(
        "`{}` is in no BPF file system, where alone programs can be pinned: `mount -t bpf bpf \
         /sys/fs/bpf`",
        .0.display()
    )]
    NoBpffs(PathBuf),
    #[error("there is no network interface `{0}`; `ip link` lists them")]
    NoInterface(String),
    #[error(
        "a program with handlers on the host cannot go on when interface `{0}` is back, since its process has sockets of the \
         old one: start it again"
    )]
    NotBack(String),
    #[error("interface `{0}` is gone: reload when it is back, or end the run")]
    Gone(String),
    #[error(
        "interface `{interface}`: its driver has no native XDP ({source}); use an interface whose driver has it, or veth"
    )]
    NoNative { interface: String, source: io::Error },
    #[error(
        "interface `{interface}`: frames are too large for XDP ({source}): its MTU is {mtu}{peer}, and generated programs take \
         frames that lie in one page, of an MTU up to {largest}; `ip link set dev {interface} mtu {largest}`, of a veth pair on \
         both ends",
        peer = if *mtu <= *largest { " (so its peer's is larger)" } else { "" }
    )]
    LargeFrames { interface: String, mtu: u32, largest: u32, source: io::Error },
    #[error(
        "a frame of {length} bytes: the kernel takes frames of {smallest} to {largest} bytes here"
    )]
    FrameLength { length: usize, smallest: usize, largest: usize },
    #[error("the program has no handler for `{0}`, so such an event cannot be given to it")]
    NoHandler(String),
    #[error("port {port}: the program has ports 0 to {last}")]
    NoPort { port: u32, last: u32 },
    #[error("the program has {wanted} ports, so it needs {wanted} interfaces; given: {given}")]
    Ports { wanted: u32, given: String },
    #[error("the packet could not be changed: {0}")]
    NoRoom(String),
    #[error("cannot {what}: {source}")]
    Kernel { what: String, source: io::Error },
    #[error(transparent)]
    Compile(#[from] CompileError),
    #[error(
        "a program with handlers on the host neither replaces a running one nor is replaced, since its process has tables \
         of its own: end it and start the other"
    )]
    NotReplaced,
    #[error("the program's host side: {0}")]
    Process(#[from] HostError),
}

impl XdpError {
    /// The party that has to act.
    pub fn fault(&self) -> Fault {
        match self {
            XdpError::Privilege { .. }
            | XdpError::Feature { .. }
            | XdpError::Busy { .. }
            | XdpError::NoNative { .. }
            | XdpError::LargeFrames { .. }
            | XdpError::Gone(_)
            | XdpError::PinsUsed(_)
            | XdpError::NoBpffs(_)
            | XdpError::Kernel { .. } => Fault::Environment,
            XdpError::Compile(error) => error.fault(),
            XdpError::Process(error) => error.fault(),
            _ => Fault::User,
        }
    }

    /// True if the kernel refused what it was given.
    pub(crate) fn is_invalid(&self) -> bool {
        matches!(self, XdpError::Kernel { source, .. }
            if source.raw_os_error() == Some(libc::EINVAL))
    }

    /// A failed system call, with the cause people meet most often told apart.
    pub(crate) fn kernel(what: impl Into<String>, source: io::Error) -> XdpError {
        let what = what.into();
        match source.raw_os_error() {
            Some(libc::EPERM) => XdpError::Privilege { what },
            Some(libc::ENOSYS) => XdpError::Feature {
                what: format!("what it takes to {what}"),
                how: "use a kernel with CONFIG_BPF_SYSCALL=y, 5.15 or newer".to_string(),
            },
            _ => XdpError::Kernel { what, source },
        }
    }

    /// The last failed system call.
    pub(crate) fn last(what: impl Into<String>) -> XdpError {
        XdpError::kernel(what, io::Error::last_os_error())
    }
}
