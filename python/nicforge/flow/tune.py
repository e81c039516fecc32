"""Sizes by measurement: every combination of choices is planned and run, and the cheapest wins.

    tuned = tune(make, "traffic.pcap", n=[4, 8, 16], policy=["write-through", "write-back"])
    print(tuned.table())
    tuned.best  # {"n": 8, "policy": "write-back"}

`make(n=4, policy="write-through")` gives a Program. What is compared are processor cycles a packet of the busiest stage, on
one of its replicas: by the target's model, as `plan` predicts it, and as DPDK on this computer takes on the capture, least of
several runs, since whatever else runs here only adds. It is measured on `dpdk` only; other targets have no clock here. Both
are of the plan that the planner takes for each program.
"""

from __future__ import annotations

import dataclasses
import itertools
import json
from collections.abc import Callable

from .errors import FlowError, caller
from .program import Program


@dataclasses.dataclass(frozen=True)
class Tried:
    """One combination: cycles a packet of the busiest stage."""

    choice: dict
    predicted: float
    measured: float


@dataclasses.dataclass(frozen=True)
class Tuned:
    """All combinations that were tried, the cheapest by measurement first."""

    tried: list[Tried]

    @property
    def best(self) -> dict:
        return self.tried[0].choice

    def table(self) -> str:
        """Predicted against measured, for people."""
        rows = [("cycles a packet: predicted", "measured", "")]
        for each in self.tried:
            said = ", ".join(f"{name}={value}" for name, value in each.choice.items())
            rows.append((f"{each.predicted:.0f}", f"{each.measured:.0f}", said))
        return "\n".join(f"{one:>26} {two:>9}  {three}".rstrip() for one, two, three in rows)


def tune(make: Callable[..., Program], pcap: str, repeat: int = 3, **choices: list) -> Tuned:
    """Plans and runs the program of every combination of choices on a capture.

    repeat: runs of each, of which the least counts.
    Raises FlowError if a program is refused, if a run differs from the interpreter, or if there is nothing to choose.
    """
    place = caller()
    if not choices or not all(isinstance(values, (list, tuple)) and values for values in choices.values()):
        raise FlowError("there is nothing to choose", place, "write tune(make, pcap, n=[4, 8])")
    if not isinstance(repeat, int) or repeat < 1:
        raise FlowError(f"{repeat} runs are none", place, "take at least 1")
    tried = []
    for values in itertools.product(*choices.values()):
        choice = dict(zip(choices, values, strict=True))
        program = make(**choice)
        tool = program.tool()
        plan = json.loads(tool.run("plan", "--target", "dpdk", "--json"))
        predicted = max(stage["busy_cycles"] * stage["share"] / stage["replicas"] for stage in plan["stages"])
        measured = min(_measured(program, pcap) for _ in range(repeat))
        tried.append(Tried(choice, predicted, measured))
    return Tuned(sorted(tried, key=lambda each: each.measured))


def _measured(program: Program, pcap: str) -> float:
    report = program.run(pcap, target="dpdk")
    if not (report.get("reference") or {}).get("ok", False):
        raise FlowError(f"program `{program.name}` does on dpdk what the interpreter does not", program.place)
    packets = max(report["packets_in"], 1)
    stages = [stage for stage in report["stages"] if stage["events"]]
    return max(stage["cycles_per_event"] * stage["events"] / packets / stage["replicas"] for stage in stages)
