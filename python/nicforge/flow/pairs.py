"""Values that come by different queues, brought together by a number.

    both = Pair("both", size=u32, name=Name)
    split.size >> Queue("sizes") >> Scale() >> both.size     # Scale gives (number, size)
    split.name >> Queue("names") >> Find() >> both.name      # Find gives (number, name)
    both >> Store()                                          # takes (size, name)

A join (joins.py) does that without a number where one entry can carry what waits. Where each half
has a queue of its own nothing says which entries belong together but what they carry, so the
program numbers them, by a count or what its packets have. The first half waits in place `number %
places` of a table. Another one that needs the place takes it, and what waited is lost and counted
in the table `NAME_lost`: a half whose other one was dropped, or is that far behind, must not keep
its place for ever. Both halves use one table, so both queues lead to one side.

Packets are no halves: a packet cannot wait, and which half of one input comes first is the target's
choice. Stages restore the order of inputs, by their numbers, and events of one input that come by
different ways have the same.
"""

from __future__ import annotations

from string import Template

from .element import Element, In, Out, Port
from .errors import FlowError, Place, caller
from .types import Struct, Table, Type, check_name, packet, u8, u32, u64

_BODY = Template("""
struct ${NAME}_half half;
nf_lookup(&${NAME}, number % ${PLACES}, &half);
if (half.waits == ${OTHER} && half.number == number) {
    nf_update(&${NAME}, number % ${PLACES}, (struct ${NAME}_half){0});
    out(${BOTH});
    return;
}
if (half.waits != 0)
    nf_add_value(&${NAME}_lost, 0, 1);
half = (struct ${NAME}_half){0};
half.number = number;
half.waits = ${OWN};
half.${MINE} = ${MINE};
nf_update(&${NAME}, number % ${PLACES}, half);
""")


class Pair:
    """Two values that wait for each other: `Pair("both", size=u32, name=Name, places=256)`.

    `both.size` and `both.name` take a number and a half each; what comes out are both values in
    their order, where two halves had the same number. `places`: halves that wait at most.
    """

    def __init__(self, name: str, /, places: int = 256, **halves: Type):
        self.place: Place = caller()
        self._name = check_name(name, self.place)
        if len(halves) != 2 or not all(isinstance(ty, Type) for ty in halves.values()):
            raise FlowError(
                f"{self} is no pair", self.place, 'write Pair("both", size=u32, name=Name)'
            )
        if not isinstance(places, int) or not 1 <= places <= 1 << 20:
            raise FlowError(f"{self} has {places} places", self.place, "take 1 to 1048576")
        for half, ty in halves.items():
            if ty is packet:
                raise FlowError(
                    f"half `{half}` of {self} is a packet, which cannot wait",
                    self.place,
                    "let it go through the queue that carries both, or send values",
                )
            if hasattr(Pair, half) or half in ("place", "out", "number", "half", "waits"):
                raise FlowError(f"{self} has a half `{half}`", self.place, "take another name")
        #: What waits.
        self._half = Struct(f"{name}_half", number=u32, waits=u8, **halves)
        self._tables = (
            Table(name, "array", u32, self._half, places, self.place),
            Table(f"{name}_lost", "array", u32, u64, 1, self.place),
        )
        self._leave = self._new(
            "leave", In(**halves), Out(*halves.values()), f"out({', '.join(halves)});", ()
        )
        #: Both values.
        self.out: Port = self._leave.outputs["out"]
        for own, (half, ty) in enumerate(halves.items(), 1):
            both = ", ".join(each if each == half else f"half.{each}" for each in halves)
            words = {
                "NAME": name,
                "PLACES": places,
                "OTHER": 3 - own,
                "OWN": own,
                "MINE": half,
                "BOTH": both,
            }
            body = _BODY.substitute(words).strip()
            element = self._new(
                half, In(number=u32, **{half: ty}), Out(*halves.values()), body, self._tables
            )
            element.outputs["out"] >> self._leave
            setattr(self, half, element)

    def _new(self, what: str, inp: In, out: Out, body: str, tables: tuple) -> Element:
        members = {
            "inp": inp,
            "out": out,
            "body": body,
            "tables": tables,
            "structs": (self._half,) if tables else (),
        }
        return type("PairElement", (Element,), members)(f"{self._name}_{what}")

    def __rshift__(self, to):
        return self.out >> to

    def __str__(self) -> str:
        return f"pair `{self._name}`"
