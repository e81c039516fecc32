"""A cache on the NIC side, in front of state that the host has.

    near = Cache("near", Key, Item, 32768)
    get = near.get("request.key", request=Request)              # hit: with the item; miss: as it came
    ask.get >> get
    get.miss >> Queue("requests", side="host") >> find
    find.hit >> answer >> near.fill("request.key", "item", request=Request, item=Item)
    put.stored >> done >> near.update("request.key", "item", request=Request, item=Item)
    find.miss >> absent >> near.nothing(request=Request)
    near.settled >> Reply()

It is write-through: the host has everything, and the cache only what was asked for. Everything the host answers goes
through one queue to one handler of the NIC side, which changes the cache and then lets the answer go on. That is the
whole rule. It keeps, key by key, the cache at some point of the host's order, which only moves on; and no answer leaves
before the cache has reached the point it was made at. So a read that begins after an answer finds at least what that
answer knew, whatever was filled, evicted or written in between, and also if answers are lost. Packets of one key must be
handled by one CPU at a time.
"""

from __future__ import annotations

from .element import Element, In, Out, Queue
from .errors import caller
from .types import Table, Type, check_name, packet, u8

_KEEP, _FILL, _UPDATE = 0, 1, 2


class Cache:
    """At least `entries` values by key; those that were used last stay.

    `settled` gives the packets whose answers may leave; connect it.
    """

    def __init__(self, name: str, key: Type, value: Type, entries: int):
        self.place = caller()
        self.name, self.key, self.value = check_name(name, self.place), key, value
        self.table = Table(name, "lru", key, value, entries, self.place)
        self.answers = Queue(f"{name}_answers", side="nic", ordered=False)
        self.settled = _element(
            f"{name}_settle",
            In(pkt=packet, key=key, value=value, change=u8),
            {"out": Out(packet)},
            f"""
            if (change == {_FILL} || (change == {_UPDATE} && nf_contains(&{name}, key)))
                nf_update(&{name}, key, value);
            out(pkt);
            """,
            (self.table,),
        )
        self.answers >> self.settled
        self._made = 0

    def get(self, key: str, /, **carried: Type) -> Element:
        """Looks up; `key` is C over what the packet carries. `hit` has the value behind it, `miss` is as it came."""
        values = ", ".join(["pkt", *carried])
        body = f"""
            {self.value.declare("cached")};
            if (nf_lookup(&{self.name}, {key}, &cached))
                hit({values}, cached);
            else
                miss({values});
            """
        types = (packet, *carried.values())
        outputs = {"hit": Out(*types, self.value), "miss": Out(*types)}
        return self._new("get", In(pkt=packet, **carried), outputs, body, (self.table,))

    def fill(self, key: str, value: str, /, **carried: Type) -> Element:
        """The host's answer to a miss: from now on the NIC side knows this value."""
        return self._change("fill", _FILL, key, value, carried)

    def update(self, key: str, value: str, /, **carried: Type) -> Element:
        """The host's answer to a write: what the NIC side knows is replaced."""
        return self._change("update", _UPDATE, key, value, carried)

    def nothing(self, **carried: Type) -> Element:
        """An answer that changes nothing. It takes the same way, so that it does not overtake what it knew of."""
        body = f"""
            {self.key.declare("key")} = {{0}};
            {self.value.declare("value")} = {{0}};
            out(pkt, key, value, {_KEEP});
            """
        return self._out("nothing", carried, body)

    def _change(self, what: str, change: int, key: str, value: str, carried: dict[str, Type]) -> Element:
        return self._out(what, carried, f"out(pkt, {key}, {value}, {change});")

    def _out(self, what: str, carried: dict[str, Type], body: str) -> Element:
        outputs = {"out": Out(packet, self.key, self.value, u8)}
        element = self._new(what, In(pkt=packet, **carried), outputs, body, ())
        element.out >> self.answers
        return element

    def _new(self, what: str, inp: In, outputs: dict[str, Out], body: str, tables: tuple) -> Element:
        self._made += 1
        return _element(f"{self.name}_{what}_{self._made}", inp, outputs, body, tables)


def _element(name: str, inp: In, outputs: dict[str, Out], body: str, tables: tuple) -> Element:
    """An element of a class of its own."""
    return type("CacheElement", (Element,), {"inp": inp, "body": body, "tables": tables, **outputs})(name)
