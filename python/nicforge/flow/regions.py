"""Checks a cache's regions in the graph of a program.

A region is every way from one of a cache's starts (`get.miss`, `set.busy`, `displaced`) to its ends
(`fill`, `update`, `nothing`, `written`). The rules, each of which a way of its own would break
(cache.py says what goes wrong then):

* a way ends at an end of its cache, or in `Drop` or `Discard`: an answer that leaves before the
  cache knew of it is ahead;
* regions lie apart or one in the other: between a start and its end is no start of the same cache
  and no end of another;
* starts are on the NIC side, and a region goes through the host: both ends of a cache are where its
  table is;
* write-back: what was displaced and what missed go through one queue (channels of it, if their
  types differ) and no other before it, so that a miss finds what was displaced before it;
* the state behind a cache (tables with its key that are used in the region, on the host) is
  answered from through the cache only; in a write-back cache it is reached through it only.
"""

from __future__ import annotations

from .element import Element, Port, Queue, behind
from .errors import FlowError, Place
from .library import Discard, Drop


def check(elements: list[Element], sources: tuple[Element, ...]) -> None:
    """Raises FlowError for the first rule that a cache's region breaks."""
    caches = {}
    for element in elements:
        if element.region is not None:
            caches.setdefault(id(element.region[0]), element.region[0])
    for cache in caches.values():
        _Regions(cache, elements, sources).check()


def _next(port: Port) -> list[tuple[Queue | None, Element]]:
    """What a port leads to, and the queue between."""
    return [(to if isinstance(to, Queue) else None, behind(to)) for to in port.to]


class _Regions:
    def __init__(self, cache, elements: list[Element], sources: tuple[Element, ...]):
        self.cache, self.elements, self.sources = cache, elements, sources
        #: The first queue of each way into the region, with the output that leads there.
        self.up: list[tuple[Queue, Port]] = []
        self.inside: list[Element] = []

    def check(self) -> None:
        self._starts_are_on_the_nic()
        for element in self.elements:
            for name in self._ports_in(element, self.cache):
                self._walk(element.outputs[name], None, (), set())
        if self.cache.back:
            self._one_queue()
        self._state_behind()

    @staticmethod
    def _ports_in(element: Element, cache) -> tuple[str, ...]:
        """Outputs of an element that lead into a region of a cache."""
        if element.region is None or element.region[0] is not cache or element.region[1] != "start":
            return ()
        return element.region[2]

    def _starts_are_on_the_nic(self) -> None:
        waiting = [(source, "nic") for source in self.sources]
        seen: list[tuple[Element, str]] = []
        while waiting:
            element, side = state = waiting.pop()
            if state in seen:
                continue
            seen.append(state)
            region = element.region
            if (
                side == "host"
                and region is not None
                and region[0] is self.cache
                and region[1] != "end"
            ):
                raise FlowError(
                    f"{element} begins a region of {self.cache} on the host, and the region ends on the NIC side",
                    element.place,
                    "look up before the packet goes to the host",
                )
            for port in element.outputs.values():
                waiting += [(to, (queue and queue.side) or side) for queue, to in _next(port)]

    def _walk(self, port: Port, side: str | None, nested: tuple, seen: set) -> None:
        """Follows a way of the region. `side`: where it is, None before its first queue; `nested`:
        regions begun inside."""
        for queue, element in _next(port):
            now = side
            if queue is not None:
                if side is None:
                    self.up.append((queue, port))
                now = "host" if "host" in (side, queue.side) else "nic"
            state = (element, now, nested)
            if state in seen:
                continue
            seen.add(state)
            if not self._ends(port, element, now, nested):
                self.inside.append(element)
                for name, out in element.outputs.items():
                    begins = element.region is not None and name in self._ports_in(
                        element, element.region[0]
                    )
                    self._walk(out, now, (*nested, element.region[0]) if begins else nested, seen)
            elif nested:
                for out in element.outputs.values():
                    self._walk(out, now, nested[:-1], seen)

    def _ends(self, port: Port, element: Element, side: str | None, nested: tuple) -> bool:
        """Whether a way ends at an element (of this region, or of the innermost one in it)."""
        cache, region = self.cache, element.region
        if region is not None and region[1] == "end":
            if region[0] is not (nested[-1] if nested else cache):
                other = nested[-1] if nested else cache
                raise FlowError(
                    f"regions of {other} and {region[0]} overlap: {port} leads to {element}",
                    port.place,
                    f"end that of {other} first",
                )
            if not nested and side != "host":
                raise FlowError(
                    f"a region of {cache} begins and ends on the NIC side: {port} leads to {element}",
                    port.place,
                    "what is looked up again must come from the host",
                )
            return True
        if region is not None and region[0] is cache and region[1] == "start":
            raise FlowError(
                f"regions of {cache} overlap: {port} leads to {element} before the region it is in has ended",
                port.place,
                "end the first with fill, update or nothing",
            )
        if not element.outputs and not isinstance(element, (Drop, Discard)):
            raise FlowError(
                f"{port} leads out of a region of {cache}, to {element}",
                port.place,
                "answers leave by `settled`: end the region with fill, update or nothing (displaced entries with written)",
            )
        return False

    def _one_queue(self) -> None:
        first, port = self.up[0] if self.up else (None, None)
        for queue, other in self.up:
            if queue.side != "host":
                raise FlowError(
                    f"{queue} is between {self.cache} and its state on the NIC side",
                    other.place,
                    "what is displaced might overtake what missed: go to the host at once",
                )
            if queue.whole is not first.whole:
                raise FlowError(
                    f"what leaves {self.cache} goes through {first} ({port.place}) and {queue}",
                    other.place,
                    "a miss must not overtake what was displaced before it: take channels of one queue",
                )

    def _state_behind(self) -> None:
        """Ways past the cache to the state behind it, and from there past its ends."""
        own = [id(table) for table in self.cache.own]
        tables = {
            id(t): t
            for e in self.inside
            for t in e.tables
            if t.key == self.cache.key and id(t) not in own
        }
        users = [
            element
            for element in self.elements
            if any(id(table) in tables for table in element.tables)
        ]
        if self.cache.back:
            past: list[tuple[Element, Place]] = [(source, source.place) for source in self.sources]
            seen: list[Element] = []
            while past:
                element, place = past.pop()
                if element in seen:
                    continue
                seen.append(element)
                if element in users:
                    raise FlowError(
                        f"{element} uses the state behind {self.cache} and is reached past it",
                        place,
                        "the cache may know better: let every request pass get or set",
                    )
                into = self._ports_in(element, self.cache)
                for name, port in element.outputs.items():
                    past += [(to, port.place) for _, to in _next(port) if name not in into]
        for element in users:
            for port in element.outputs.values():
                self._walk(port, "host", (), set())
