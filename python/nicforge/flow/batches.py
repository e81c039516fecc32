"""Batches: several values are one entry of a queue.

    several = Batcher("reports", Report, 8, deadline=50_000)
    parse.report >> several >> Queue("up", side="host") >> Debatcher(several) >> store
    clock = CallableSegment(sends=Tick, name="clock")
    clock.sent >> several.tick

A batch leaves when it has `n` values, or when its oldest value has waited for `deadline`
nanoseconds. Handlers run for events only, so something must happen for time to pass: the next
value, or a *tick*. A tick is a message of the host side (its number means nothing), so batches also
leave when there is no traffic at all; whoever sends them, say every `deadline`, is a program that
attaches (docs/flow.md). A batcher with a deadline that nothing ticks is an error: its last values
would wait for the next ones.
"""

from __future__ import annotations

from .element import Element, In, Out, Port
from .errors import FlowError, Place, caller
from .types import Struct, Table, Type, check_name, packet, u32, u64

#: What a clock sends.
Tick = Struct("tick", number=u32)

_APPEND = """
struct NAME_open open;
nf_lookup(&NAME, 0, &open);
if (open.batch.count == 0)
    open.began = nf_now();
open.batch.values[open.batch.count] = value;
open.batch.count = open.batch.count + 1;
bool leaves = open.batch.count >= MOST || (DEADLINE != 0 && nf_now() - open.began >= DEADLINE);
struct NAME_batch batch = open.batch;
if (leaves)
    open.batch = (struct NAME_batch){0};
nf_update(&NAME, 0, open);
if (leaves)
    out(batch);
"""

_TICK = """
struct NAME_open open;
nf_lookup(&NAME, 0, &open);
if (open.batch.count == 0 || nf_now() - open.began < DEADLINE)
    return;
struct NAME_batch batch = open.batch;
open.batch = (struct NAME_batch){0};
nf_update(&NAME, 0, open);
out(batch);
"""


class Batcher:
    """Collects values: `several = Batcher("reports", Report, 8, deadline=50_000)`.

    values    their type.
    n         how many a batch has at most, 2 to 64.
    deadline  nanoseconds that a value waits at most, up to the next tick; None: until the batch is
              full.

    `several.tick` takes what a clock sends, `several.batch` is the struct that leaves: `count`, and
    `values` of which so many count.
    """

    def __init__(self, name: str, values: Type, n: int, deadline: int | None = None):
        self.place: Place = caller()
        self.name = check_name(name, self.place)
        if not isinstance(values, Type) or values is packet or values.count:
            raise FlowError(
                f"{self} collects no values", self.place, "write Batcher(name, u32, 8), or a Struct"
            )
        if not isinstance(n, int) or not 2 <= n <= 64:
            raise FlowError(f"{self} has {n} values in a batch", self.place, "take 2 to 64")
        if deadline is not None and (not isinstance(deadline, int) or deadline < 1):
            raise FlowError(
                f"{self} has a deadline of {deadline}", self.place, "take nanoseconds, at least 1"
            )
        self.values, self.n, self.deadline = values, n, deadline
        self.batch = Struct(f"{name}_batch", count=u32, values=values[n])
        self.open = Struct(f"{name}_open", began=u64, batch=self.batch)
        self.table = Table(name, "array", u32, self.open, 1, self.place)
        self._append = self._new("append", In(value=values), _APPEND, MOST=n)
        self.tick = self._new("tick", In(tick=Tick), _TICK)
        self._leave = self._new("leave", In(batch=self.batch), "out(batch);")
        self._append.out >> self._leave
        self.tick.out >> self._leave
        #: The batches.
        self.out: Port = self._leave.out

    def _new(self, what: str, inp: In, body: str, **constants: int) -> Element:
        tables, structs = ((self.table,), (self.batch, self.open)) if what != "leave" else ((), ())
        members = {"inp": inp, "out": Out(self.batch), "tables": tables, "structs": structs}
        members["body"] = body.replace("NAME", self.name).strip()
        more = {} if what == "leave" else {"DEADLINE": self.deadline or 0}
        element = type("BatcherElement", (Element,), members)(
            f"{self.name}_{what}", **more, **constants
        )
        element.batcher = self
        return element

    def entry(self) -> Element:
        """Where a connection to it leads."""
        return self._append

    def __rshift__(self, to):
        return self.out >> to

    def __str__(self) -> str:
        return f"batcher `{self.name}`"


class Debatcher(Element):
    """Takes a batcher's batches apart: its `out` gives the values one by one, in order."""

    def __init__(self, batcher: Batcher, name: str | None = None):
        place = caller()
        if not isinstance(batcher, Batcher):
            raise FlowError(
                "a debatcher takes the batches of a batcher",
                place,
                "write Debatcher(several) with the Batcher",
            )
        self.inp = In(batch=batcher.batch)
        super().__init__(name, MOST=batcher.n)
        self.add_output("out", batcher.values)
        self.body = "\n".join(
            [
                "for (uint32_t i = 0; i < MOST; i++)",
                "    if (i < batch.count)",
                "        out(batch.values[i]);",
            ]
        )


def check(elements: list[Element]) -> None:
    """Raises FlowError for batchers with a deadline and without a clock."""
    for element in elements:
        batcher = getattr(element, "batcher", None)
        if batcher is not None and batcher.deadline is not None and batcher.tick not in elements:
            raise FlowError(
                f"nothing ticks {batcher}: its last values would wait for the next ones",
                batcher.place,
                "connect a clock to its `tick`, or leave the deadline out",
            )
