"""Sizes by measurement: every combination of choices is planned and run, and the fastest wins.

    tuned = tune(make, "traffic.pcap", n=[4, 8, 16], policy=["write-through", "write-back"])
    print(tuned.table())
    tuned.best  # {"n": 8, "policy": "write-back"}

`make(n=4, policy="write-through")` gives a Program. What is compared are packets per second, as the
target's model predicts them and as measured: on `dpdk` and `xdp` what the busiest stage keeps up
with on this computer, on all others the greatest rate without loss in the simulator. `nicforge plan
--tune` measures; of each program it runs the model's best plans.

`Choices(make, n=[4, 8]).main()` is the same as a command: `prog.py tune --target dpdk --pcap
traffic.pcap`, and all others of a program with `--n 8` beside them.
"""

from __future__ import annotations

import argparse
import dataclasses
import itertools
import json
import sys
from collections.abc import Callable

from .errors import FlowError, caller
from .program import Program


@dataclasses.dataclass(frozen=True)
class Tried:
    """One combination: packets per second, and its fastest plan: the number in the search, and its
    stages."""

    choice: dict
    predicted: float
    measured: float
    candidate: int
    stages: tuple[str, ...]


@dataclasses.dataclass(frozen=True)
class Tuned:
    """All combinations that were tried, the fastest by measurement first."""

    target: str
    tried: list[Tried]

    @property
    def best(self) -> dict:
        return self.tried[0].choice

    def table(self) -> str:
        """Predicted against measured, for people."""
        rows = [("predicted Mpps", "measured Mpps", f"on {self.target}")]
        for each in self.tried:
            said = ", ".join(f"{name}={value}" for name, value in each.choice.items())
            plan = f"(candidate {each.candidate}: {', '.join(each.stages)})"
            rows.append(
                (f"{each.predicted / 1e6:.2f}", f"{each.measured / 1e6:.2f}", f"{said}  {plan}")
            )
        return "\n".join(f"{one:>16} {two:>14}  {three}" for one, two, three in rows)


def tune(
    make: Callable[..., Program],
    pcap: str,
    *,
    target: str = "dpdk",
    plans: int = 1,
    **choices: list,
) -> Tuned:
    """Plans and runs the program of every combination of choices on a capture.

    plans: how many of each program's plans are run, of which the fastest counts; the search for
    those of all but the first program ends where the first one's fastest was found. Raises
    FlowError if a program is refused, if a run differs from the interpreter, or if there is nothing
    to choose.
    """
    return _tune(make, ("--pcap", pcap), target, plans, choices, caller())


def _tune(make, inputs: tuple[str, ...], target: str, plans: int, choices: dict, place) -> Tuned:
    _check(choices, place)
    if not isinstance(plans, int) or plans < 1:
        raise FlowError(f"{plans} plans are none", place, "take at least 1")
    tried: list[Tried] = []
    for values in itertools.product(*choices.values()):
        choice = dict(zip(choices, values, strict=True))
        program = make(**choice)
        program.check_cores(target)
        # Searching takes most of the time, and sizes hardly change which cuts are good: the first
        # program is searched to the end, the others as far as its best plan.
        far = ("--iterations", str(max(tried[0].candidate + 1, plans))) if tried else ()
        plan = json.loads(
            program.tool().run(
                "plan", "--target", target, f"--tune={plans}", "--json", *far, *inputs
            )
        )
        (step,) = (step for step in plan["search"] if step["chosen"])
        rates = _predicted(plan, target), step["measured_pps"]
        tried.append(Tried(choice, *rates, step["iteration"], tuple(step["stages"])))
    return Tuned(target, sorted(tried, key=lambda each: -each.measured))


def _predicted(plan: dict, target: str) -> float:
    """The model's figure for what was measured: stages alone where they ran here, with ports in the
    simulator."""
    if target in ("dpdk", "xdp"):
        return min(stage["rate_pps"] for stage in plan["stages"])
    return plan["predicted"]["rate_pps"]


def _check(choices: dict, place) -> None:
    if not choices or not all(
        isinstance(values, (list, tuple)) and values for values in choices.values()
    ):
        raise FlowError("there is nothing to choose", place, "write tune(make, pcap, n=[4, 8])")


class Choices:
    """A program with sizes to choose, as a command: `Choices(make, n=[4, 8]).main()`. The first of
    each are its own sizes."""

    def __init__(self, make: Callable[..., Program], **choices: list):
        self.make, self.choices, self.place = make, choices, caller()
        _check(choices, self.place)
        for name in choices:
            if name in ("pcap", "target", "plans", "help"):
                raise FlowError(
                    f"a choice cannot be called `{name}`", self.place, "give it another name"
                )

    def main(self, arguments: list[str] | None = None) -> None:
        """`tune --target T --pcap F` tries all and prints predicted against measured; all else is
        the program's."""
        parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
        for name, values in self.choices.items():
            words = {str(value): value for value in values}
            parser.add_argument(
                f"--{name.replace('_', '-')}", dest=name, choices=words, default=str(values[0])
            )
        options, rest = parser.parse_known_args(arguments)
        if rest[:1] == ["tune"]:
            self._tune(rest[1:])
        of = {
            name: {str(value): value for value in values}[getattr(options, name)]
            for name, values in self.choices.items()
        }
        self.make(**of).main(rest)

    def _tune(self, arguments: list[str]) -> None:
        parser = argparse.ArgumentParser(
            prog="tune", description="Runs all combinations of choices and compares them."
        )
        parser.add_argument(
            "--target", default="dpdk", help="dpdk and xdp are run here, others simulated"
        )
        parser.add_argument("--pcap", required=True, help="the packets they run on")
        parser.add_argument("--tables", help="what tables hold at first")
        parser.add_argument(
            "--plans", type=int, default=1, help="plans of each program that are run"
        )
        options = parser.parse_args(arguments)
        inputs = ("--pcap", options.pcap, *(("--tables", options.tables) if options.tables else ()))
        try:
            tuned = _tune(
                self.make, inputs, options.target, options.plans, self.choices, self.place
            )
        except FlowError as error:
            print(f"error: {error}", file=sys.stderr)
            sys.exit(1)
        except KeyboardInterrupt:
            sys.exit(130)
        print(tuned.table())
        best = " ".join(f"--{name.replace('_', '-')} {value}" for name, value in tuned.best.items())
        print(f"best: {best} --candidate {tuned.tried[0].candidate}")
        sys.exit(0)
