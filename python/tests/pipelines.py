"""Random pipelines of elements from a seed: each as a flow program, and as plain Python that says
what it does."""

import random

from nicforge.flow import (
    Element,
    Field,
    FromNet,
    In,
    Out,
    Program,
    Queue,
    State,
    Table,
    ToNet,
    packet,
    u32,
)

WORD = 0xFFFFFFFF
PORTS = 2

#: Operations on `x` and a number, in C and in Python.
OPERATIONS = [
    ("x + {n}u", lambda x, n: x + n),
    ("x - {n}u", lambda x, n: x - n),
    ("x * {n}u", lambda x, n: x * n),
    ("x ^ {n}u", lambda x, n: x ^ n),
    ("x >> ({n}u & 31)", lambda x, n: x >> (n & 31)),
    ("x << ({n}u & 31)", lambda x, n: x << (n & 31)),
    ("x % ({n}u | 1)", lambda x, n: x % (n | 1)),
    ("x / ({n}u | 1)", lambda x, n: x // (n | 1)),
    ("(uint32_t)(int16_t)x + {n}u", lambda x, n: (x & 0x7FFF) - (x & 0x8000) + n),
    ("x < {n}u ? x : {n}u", min),
]


def word(frame: bytes, at: int) -> int:
    """What `nf_load` leaves in a variable that was zero."""
    return int.from_bytes(frame[at : at + 4], "little") if at + 4 <= len(frame) else 0


class Packet:
    """A frame under way with the fields that elements share."""

    def __init__(self, frame: bytes):
        self.frame, self.kept = bytearray(frame), 0


class Pipeline:
    """A tree of elements. `program` is the flow program; `run(frame)` is what becomes of the next
    frame: a port and bytes, or the reason of a drop. `counts` are the tables then.
    """

    def __init__(self, seed: int):
        self.dice = random.Random(seed)
        self.tables: list[Table] = []
        self.counts: dict[str, dict[int, int]] = {}
        self.kept: type[State] = type("Kept", (State,), {"kept": Field(u32, initial=0)})
        self.made = self.queues = 0
        source = FromNet()
        at = self.dice.randrange(60)
        read = self.element(
            f"uint32_t x = 0;\nnf_load(pkt, {at}, &x);\nout(pkt, x);", In(pkt=packet)
        )
        source >> read
        rest = self.grow(read.out, 5)
        self.run = lambda frame: rest(Packet(frame), word(frame, at))
        self.program = Program(f"pipeline_{seed}", source, ports=PORTS)

    def element(self, body: str, inp: In | None = None, **more) -> Element:
        self.made += 1
        own = {"inp": inp or In(pkt=packet, x=u32), "out": Out(packet, u32), "body": body, **more}
        return type(f"Made{self.made}", (Element,), own)()

    def table(self, kind: str) -> tuple[Table, dict[int, int]]:
        table = Table(f"t{len(self.tables)}", kind, u32, u32, 8 if kind == "array" else 256)
        self.tables.append(table)
        return table, self.counts.setdefault(table.name, {})

    def grow(self, out, depth: int):
        """Connects a random tree behind an output; gives the function that does the same."""
        if depth == 0 or self.dice.random() < 0.1:
            return self.end(out)
        if self.dice.random() < 0.15:
            self.queues += 1
            queue = Queue(f"q{self.queues}")
            out >> queue
            out = queue
        kind = self.dice.choice(
            [self.work, self.work, self.ways, self.write, self.tally, self.add, self.keep]
        )
        return kind(out, depth - 1)

    def end(self, out):
        if self.dice.random() < 0.25:
            reason = f"reason {self.dice.randrange(3)}"
            out >> self.dropping(reason)
            return lambda p, x: reason
        last = self.element(f"out(pkt, x % {PORTS});")
        out >> last
        last.out >> ToNet()
        return lambda p, x: (x % PORTS, bytes(p.frame))

    def dropping(self, reason: str) -> Element:
        """Takes what ends as a drop."""
        own = {"inp": In(pkt=packet, x=u32), "body": f'nf_drop(pkt, "{reason}");'}
        self.made += 1
        return type(f"Made{self.made}", (Element,), own)()

    def work(self, out, depth):
        (text, python), n = (
            self.dice.choice(OPERATIONS),
            self.dice.choice([1, 7, 255, 65537, self.dice.randrange(WORD)]),
        )
        made = self.element(f"uint32_t y = {text.format(n=n)};\nout(pkt, y);")
        out >> made
        rest = self.grow(made.out, depth)
        return lambda p, x: rest(p, python(x, n) & WORD)

    def ways(self, out, depth):
        mask = 1 << self.dice.randrange(6)
        body = f"if (x & {mask}) {{\n    other(pkt, x + 1);\n    return;\n}}\nout(pkt, x);"
        made = self.element(body, other=Out(packet, u32))
        out >> made
        one, other = self.grow(made.out, depth), self.grow(made.other, depth)
        return lambda p, x: other(p, x + 1 & WORD) if x & mask else one(p, x)

    def write(self, out, depth):
        at = self.dice.randrange(70)
        made = self.element(f"uint8_t low = (uint8_t)x;\nnf_store(pkt, {at}, &low);\nout(pkt, x);")
        out >> made
        rest = self.grow(made.out, depth)

        def run(p, x):
            if at < len(p.frame):
                p.frame[at] = x & 255
            return rest(p, x)

        return run

    def tally(self, out, depth):
        table, counts = self.table("hash")
        text = f"uint32_t seen = 0;\nnf_lookup(&{table.name}, x & 63, &seen);\nnf_update(&{table.name}, x & 63, seen + 1);"
        made = self.element(f"{text}\nout(pkt, x ^ seen);", tables=(table,))
        out >> made
        rest = self.grow(made.out, depth)

        def run(p, x):
            seen = counts.get(x & 63, 0)
            counts[x & 63] = seen + 1
            return rest(p, x ^ seen)

        return run

    def add(self, out, depth):
        table, counts = self.table("array")
        made = self.element(
            f"nf_add_value(&{table.name}, x & 7, x >> 3);\nout(pkt, x);", tables=(table,)
        )
        out >> made
        rest = self.grow(made.out, depth)

        def run(p, x):
            counts[x & 7] = counts.get(x & 7, 0) + (x >> 3) & WORD
            return rest(p, x)

        return run

    def keep(self, out, depth):
        body = "uint32_t y = x + state->kept;\nstate->kept = x ^ y;\nout(pkt, y);"
        made = self.element(body, state=self.kept)
        out >> made
        rest = self.grow(made.out, depth)

        def run(p, x):
            y = x + p.kept & WORD
            p.kept = x ^ y
            return rest(p, y)

        return run
