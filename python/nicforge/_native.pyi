"""The compiled module: what `import nicforge` gives. Rates are packets per second unless they end in
`bps`, times are nanoseconds. Whatever fails raises `Error`."""

import os
from collections.abc import Sequence
from typing import Any, Literal

_Path = str | os.PathLike[str]

class Error(Exception):
    """A program, its input, a target or the machine is at fault."""

    code: int
    """The exit status that the command has for it: 1, 2 or 3."""

class Construct:
    """A construct that a target lacks, at its place."""

    what: str
    place: str

class Support:
    """A target's answer to whether a program runs there; true if it does."""

    target: str
    runs: bool
    missing: list[Construct]
    accelerated: list[tuple[str, str, str]]
    """Ops that run on accelerators: the accelerator, the op and its place."""
    refused: str | None
    """Why else it does not run."""
    remedy: str | None
    def __bool__(self) -> bool: ...

class Table:
    """A table of a program."""

    name: str
    kind: str
    capacity: int
    key_bytes: int
    value_bytes: int

class Output:
    """What an event led to."""

    event: int
    """The event's number, from 0."""
    kind: Literal["send", "stack", "host", "message", "dma", "drop", "log"]
    port: int | None
    data: bytes
    reason: str | None
    """Why a packet was dropped."""
    text: str
    """The output in words."""

class Run:
    """A run in the interpreter."""

    events: int
    outputs: list[Output]
    def table(self, name: str) -> list[dict[str, Any]]:
        """What a table holds at the end: entries with `key` and `value`."""

class Comparison:
    """What a comparison found; true if all is equal and there was something to compare."""

    target: str
    ok: bool
    events: int
    matching: int
    tables: int
    matching_tables: int
    beyond: int
    """Events that were left out, since they are beyond what the target takes."""
    given_up: int
    """Events that were left out, since they hang on entries that a full LRU table gave up."""
    differences: list[str]
    stands_in: str | None
    """What stands in for the target's hardware, if something does."""
    verdict: str
    def __bool__(self) -> bool: ...

class Stage:
    """A stage of a plan and its replicas."""

    name: str
    group: str
    """The unit group that it runs on."""
    replicas: int
    tables: list[str]
    cycles: float
    """Cycles of a unit for an event."""
    rate_pps: float
    """What all replicas keep up with."""
    replication: Literal["free", "sharded", "locked", "single"]

class Memory:
    """A table's place in a plan."""

    table: str
    memory: str
    bytes: int
    per_replica: bool

class Guarantee:
    """The rate that no packets make a plan fall below."""

    one_flow_pps: float
    """Whatever comes."""
    spread_pps: float
    """Where keys spread evenly."""
    exact: bool
    """Every stage's slowest packet was found."""
    limit: str
    """The stage, memory or link that decides."""

class Simulation:
    """What a simulation found."""

    offered_pps: float
    delivered_pps: float
    delivered_bps: float
    loss: float
    """Share of the offered packets that queues lost."""
    latency_p50_ns: float | None
    latency_p99_ns: float | None
    watts: float
    def as_dict(self) -> dict[str, Any]:
        """All of it, as `nicforge sim --json` prints it."""

class Plan:
    """A program on a target: stages, replicas, memories, and the rate that is expected."""

    program: str
    target: str
    rate_pps: float
    rate_bps: float
    latency_ns: float
    """From port to port without load."""
    nj_per_packet: float
    line_rate: bool
    limit: str
    """What limits the rate, in words."""
    frame_bytes: int
    stages: list[Stage]
    memories: list[Memory]
    def guarantee(self, seconds: float = 3.0) -> Guarantee:
        """Finds the rate that no packets make the plan fall below, in so many seconds a stage."""

    def simulate(
        self,
        *,
        rate: str | None = None,
        workload: str | None = None,
        duration: float = 2e-3,
        packets: int | None = None,
        replay: bool = False,
    ) -> Simulation:
        """Simulates it: `rate` as `50G` or `10Mpps` (default: one port's line), `workload` as for
        `nicforge sim`, `duration` in simulated seconds."""

    def max_rate(self, *, workload: str | None = None, duration: float = 0.5e-3) -> float | None:
        """The greatest rate with a loss below 0.1 %; None if every rate loses packets."""

    def as_dict(self) -> dict[str, Any]:
        """All of it, as `nicforge plan --json` prints it."""

    def save(self, path: _Path) -> None:
        """Writes it as JSON, which `--plan` of the command takes."""

class Program:
    """A program: C, an XDP object, αIR text, or a folder with a source of the same name."""

    name: str
    path: os.PathLike[str]
    warnings: str
    ports: int
    handlers: list[str]
    tables: list[Table]
    def __init__(
        self,
        path: _Path,
        *,
        define: Sequence[str] = (),
        include: Sequence[_Path] = (),
        libraries: Sequence[str] = (),
        function: str | None = None,
        pcap: Sequence[str] = (),
        tables: _Path | None = None,
    ) -> None: ...
    def air(self) -> str:
        """αIR as text."""

    def check(self, target: str = "all") -> list[Support]:
        """Asks a target, or all, whether the program runs there."""

    def run(self, *, pcap: Sequence[str] | None = None, tables: _Path | None = None) -> Run:
        """Runs a capture in the interpreter."""

    def plan(
        self,
        target: str,
        *,
        objective: str = "rate",
        frame: int = 256,
        flows: int = 1024,
        host_cores: int = 0,
        pin: Sequence[str] = (),
        iterations: int | None = None,
        timeout: float | None = None,
        profile: bool = False,
    ) -> Plan:
        """Finds the pipeline, replicas and memories for a target."""

    def verify(
        self,
        target: str = "xdp",
        *,
        pcap: Sequence[str] | None = None,
        tables: _Path | None = None,
    ) -> Comparison:
        """Compares a target with the interpreter, packet by packet, then table by table."""

    def code(self, target: str) -> str:
        """Generated code for a target, as text."""

    def build(self, target: str, output: _Path) -> os.PathLike[str]:
        """Builds the program for a target into a file or folder; gives its path."""

def targets() -> list[str]:
    """Names of the targets that come with Nicforge."""

def target(name: str) -> dict[str, Any]:
    """A target's units, memories, ports, events and accelerators."""

def diagnose(
    path: _Path, *, define: Sequence[str] = (), target: str | None = None
) -> dict[str, Any]:
    """Diagnostics of a program, as `nicforge check --json` prints them."""

def opaque(path: _Path, function: str, *, define: Sequence[str] = ()) -> dict[str, Any]:
    """What a function of C outside the subset does with its state."""
