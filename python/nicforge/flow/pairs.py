"""Halves that come by different queues, brought together by a number.

    both = Pair("both", size=u32, pkt=packet)
    split.size >> Queue("sizes") >> Scale() >> both.size     # Scale gives (number, size)
    split.out >> Queue("packets") >> Check() >> both.pkt     # Check gives (packet, number)
    both >> ToNet()                                          # takes (packet, size)
    both.late >> Drop("its size is not there")

A join (joins.py) does that without a number where one entry can carry what waits. Where each half has a queue of its own
nothing says which entries belong together but what they carry, so the program numbers them, by a count or what its packets
have. The first half waits in place `number % places` of a table. Another one that needs the place takes it, and what waited
is lost and counted in the table `NAME_lost`: a half whose other one was dropped, or is that far behind, must not keep its
place for ever. A packet cannot wait: it comes second, or is `late`. Both halves use one table, so both queues lead to one
side and are handled in the order in which the interpreter has them, on every target.
"""

from __future__ import annotations

from .element import Element, In, Out, Port
from .errors import FlowError, Place, caller
from .types import Struct, Table, Type, check_name, packet, u8, u32, u64

#: Another half waits there already: it goes.
_WAIT = """
if (half.waits != 0)
    nf_add_value(&NAME_lost, 0, 1);
half = (struct NAME_half){0};
half.number = number;
half.waits = OWN;
half.OWN_NAME = OWN_NAME;
nf_update(&NAME, number % PLACES, half);
"""
_FIND = """
struct NAME_half half;
nf_lookup(&NAME, number % PLACES, &half);
if (half.waits == OTHER && half.number == number) {
    nf_update(&NAME, number % PLACES, (struct NAME_half){0});
    out(VALUES);
    return;
}
"""


class Pair:
    """Two halves, of which the second may be a packet: `Pair("both", size=u32, pkt=packet, places=256)`.

    `both.size` and `both.pkt` take a half each with its number, the packet first: (number, size) and (packet, number). What
    comes out are both: (packet, size), or the values in their order. With a packet `both.late` gives packets whose value
    is not there.

    places  halves that wait at most.
    """

    def __init__(self, name: str, /, places: int = 256, **halves: Type):
        self.place: Place = caller()
        self.name = check_name(name, self.place)
        if len(halves) != 2 or not all(isinstance(ty, Type) for ty in halves.values()):
            raise FlowError(f"{self} is no pair", self.place, 'write Pair("both", size=u32, pkt=packet)')
        if not isinstance(places, int) or not 1 <= places <= 1 << 20:
            raise FlowError(f"{self} has {places} places", self.place, "take 1 to 1048576")
        (first, one), (second, other) = halves.items()
        for half in halves:
            if hasattr(Pair, half) or half in ("name", "place", "out", "late", "number", "half", "waits"):
                raise FlowError(f"{self} has a half `{half}`", self.place, "take another name")
        if one is packet:
            raise FlowError(f"the first half of {self} is a packet, which cannot wait", self.place, "name the value first")
        values = {half: ty for half, ty in halves.items() if ty is not packet}
        #: What waits.
        self._half = Struct(f"{name}_half", number=u32, waits=u8, **values)
        self._tables = (
            Table(name, "array", u32, self._half, places, self.place),
            Table(f"{name}_lost", "array", u32, u64, 1, self.place),
        )
        both = (packet, one) if other is packet else (one, other)
        words = {"PLACES": str(places)}
        if other is packet:
            waiting = self._new(
                first, In(number=u32, **{first: one}), (), _FIND[: _FIND.index("if")] + _WAIT, OWN="1", **words
            )
            meeting = self._new(
                second,
                In(**{second: packet, "number": u32}),
                both,
                f"{_FIND}late({second});",
                late=(packet,),
                OTHER="1",
                VALUES=f"{second}, half.{first}",
                **words,
            )
            #: Packets whose value is not there.
            self.late: Port = meeting.outputs["late"]
            ends = [meeting]
        else:
            own, theirs = f"{first}, half.{second}", f"half.{first}, {second}"
            waiting = self._new(
                first, In(number=u32, **{first: one}), both, _FIND + _WAIT, OWN="1", OTHER="2", VALUES=own, **words
            )
            meeting = self._new(
                second, In(number=u32, **{second: other}), both, _FIND + _WAIT, OWN="2", OTHER="1", VALUES=theirs, **words
            )
            ends = [waiting, meeting]
        setattr(self, first, waiting)
        setattr(self, second, meeting)
        leave = In(**({second: packet, first: one} if other is packet else {first: one, second: other}))
        members = {"inp": leave, "out": Out(*both), "body": f"out({', '.join(leave.values)});"}
        self._leave = type("PairElement", (Element,), members)(f"{name}_leave")
        for end in ends:
            end.outputs["out"] >> self._leave
        #: Both halves.
        self.out: Port = self._leave.outputs["out"]

    def _new(self, half: str, inp: In, out: tuple, body: str, late: tuple = (), **words: str) -> Element:
        for word, text in {"OWN_NAME": half, "NAME": self.name, **words}.items():
            body = body.replace(word, text)
        members = {"inp": inp, "tables": self._tables, "structs": (self._half,), "body": body.strip()}
        members |= {"out": Out(*out)} if out else {}
        members |= {"late": Out(*late)} if late else {}
        return type("PairElement", (Element,), members)(f"{self.name}_{half}")

    def __rshift__(self, to):
        return self.out >> to

    def __str__(self) -> str:
        return f"pair `{self.name}`"
