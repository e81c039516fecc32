"""Elements, their ports, and queues.

An element is a piece of C with ports. Its input's values are variables of the body, its outputs are
functions:

    class Classify(Element):
        inp = In(pkt=packet)
        ipv4 = Out(packet, be32)
        other = Out(packet)
        body = '''
            struct nf_eth eth;
            struct nf_ipv4 ip;
            if (nf_extract(pkt, &eth) && eth.type == nf_htons(NF_ETH_IPV4) && nf_extract(pkt, &ip))
                ipv4(pkt, ip.src);
            else
                other(pkt);
        '''

The body is the C subset: the compiler's own front end reads it, so a packet that is not given away
on some path, a loop without a bound or a wrong type is an error at the line of this file.

An element with several inputs is a *join*: it runs once all of them were fed for one packet
(joins.py).
"""

from __future__ import annotations

import inspect
import linecache
import re
import textwrap
from typing import TYPE_CHECKING

from .errors import FlowError, Place, UnknownPort, caller
from .external import External
from .types import Struct, Table, Type, check_name, packet

#: Composites whose `configure` is running, outermost first.
building: list = []


#: How many of its outputs an element calls: each once, one of them, at most one of them, any
#: number.
FIRES = ("all", "one", "zero-or-one", "many")


def _target(port: object, to: object) -> Element | Queue | Input:
    """What a connection leads to: of a composite, what is behind its input."""
    if isinstance(to, Port) or not hasattr(to, "entry"):
        raise FlowError(
            f"{port} can be connected to an element, a composite or a queue only", caller()
        )
    return to.entry()


def _no_arrays(port: str, types: tuple[Type, ...], place: Place) -> None:
    array = next((ty for ty in types if ty.count), None)
    if array is not None:
        written = f"{array.c}[{array.count}]"
        raise FlowError(
            f"{port} takes `{written}`, and C hands arrays over by address",
            place,
            "make it a Struct's member",
        )


class In:
    """An input: names and types of what comes in; at most one packet."""

    def __init__(self, **values: Type):
        self.place = caller()
        for name, ty in values.items():
            check_name(name, self.place)
            if not isinstance(ty, Type):
                raise FlowError(
                    f"the input's value `{name}` has no type",
                    self.place,
                    "write name=u32, name=packet or such",
                )
        if sum(ty is packet for ty in values.values()) > 1:
            raise FlowError("an input has one packet at most", self.place)
        _no_arrays("an input", tuple(values.values()), self.place)
        self.values = values

    @property
    def types(self) -> tuple[Type, ...]:
        return tuple(self.values.values())


class Out:
    """An output: types of what goes out."""

    def __init__(self, *types: Type):
        self.place = caller()
        if not all(isinstance(ty, Type) for ty in types):
            raise FlowError("an output takes types", self.place, "write Out(packet, u32) or such")
        _no_arrays("an output", types, self.place)
        self.types = types

    if TYPE_CHECKING:
        # An element has a port where its class has this.
        def __get__(self, element: object, of: type) -> Port: ...


class Port:
    """An output of one element, ready to be connected: `a.out >> b`."""

    def __init__(self, element: Element, name: str, types: tuple[Type, ...]):
        self.element, self.name, self.types = element, name, types
        self.to: list[Element | Queue | Input] = []
        self.place: Place | None = None

    def __rshift__(self, to):
        """Connects it to an element, a composite or a queue, which it gives back."""
        target = _target(self, to)
        self.place = caller()
        self.to.append(target)
        return to

    def __str__(self) -> str:
        return f"output `{self.name}` of {self.element}"


class Input:
    """One of several inputs of an element, ready to be connected to: `a >> b.left`."""

    def __init__(self, element: Element, name: str, values: In):
        self.element, self.name, self.values, self.place = (
            element,
            name,
            values.values,
            values.place,
        )

    @property
    def types(self) -> tuple[Type, ...]:
        return tuple(self.values.values())

    @property
    def composites(self) -> list:
        return self.element.composites

    def entry(self) -> Input:
        """Where a connection to it leads."""
        return self

    def __str__(self) -> str:
        return f"input `{self.name}` of {self.element}"


class Element:
    """A piece of C with inputs, outputs and tables. Subclasses say `inp`, outputs, `tables`,
    `body`; see this module.

    `Element(NAME=3, …)` gives a body constants of its own. `name` is what the element is called in
    reports; made from the class if it is left out.
    """

    inp: In | None = None
    tables: tuple[Table, ...] = ()
    #: Structs of the body that are no port's and no table's.
    structs: tuple[Struct, ...] = ()
    #: Functions of C that the body calls and that are no part of the program.
    externals: tuple[External, ...] = ()
    body: str = ""
    #: Other bodies for some targets, by their names; "host" is for elements of the host side, on
    #: any target (bodies.py).
    bodies: dict[str, str] = {}
    #: The state of packets that the body reads and writes (state.py).
    state: type | None = None
    #: How many of its outputs it promises to call; None promises nothing.
    fires: str | None = None
    #: Whether the body is C outside the subset (opaque.py): None if it has to be, with a note.
    opaque: bool | None = None
    #: Headers of an opaque body: `<stdlib.h>`, or `"own.h"` beside the Python file.
    includes: tuple[str, ...] = ()
    #: Who has what an opaque body calls, as of an External: a C file, an object, `-lNAME`.
    has: tuple[str, ...] = ()
    #: Instructions of the processor that an opaque body uses, as compilers call them: `aes`,
    #: `sse4.2`.
    features: tuple[str, ...] = ()
    #: An opaque body's promise that it has no state of its own, so that several threads may run it.
    pure: bool = False
    #: Whether an opaque body is written by this package, and has nothing that clang has to find.
    looked_at: bool = False
    #: How often in one run an opaque body may call each output that has no packet.
    calls: int = 1
    #: Of a cache's elements: the cache, "start" or "end" of a region, and the outputs that lead
    #: into it.
    region: tuple | None = None
    #: Where the class statement is: what notebooks run is in no module's file.
    defined: Place

    def __init_subclass__(cls, **words):
        super().__init_subclass__(**words)
        cls.defined = caller()

    def __init__(self, name: str | None = None, **constants: int):
        self.place = caller()
        self.given = name is not None
        self.composites = list(building)
        for composite in building:
            composite.members.append(self)
        name = "_".join(
            [
                *(each.name for each in building),
                name if name is not None else _snake(type(self).__name__),
            ]
        )
        self.name = check_name(name, self.place)
        self.constants = {check_name(key, self.place): value for key, value in constants.items()}
        for key, value in self.constants.items():
            if not isinstance(value, int):
                raise FlowError(f"constant `{key}` of {self} is no integer", self.place)
        self.outputs = {
            attribute: Port(self, attribute, value.types)
            for cls in reversed(type(self).__mro__)
            for attribute, value in vars(cls).items()
            if isinstance(value, Out)
        }
        for attribute, port in self.outputs.items():
            if attribute in vars(self) or attribute in vars(Element):
                raise FlowError(
                    f"an output of {self} is called `{attribute}`",
                    self.place,
                    "an element has that already",
                )
            setattr(self, attribute, port)
        #: Elements that run before it, with the line that says so.
        self.after: list[tuple[Element, Place]] = []
        self.inputs: dict[str, Input] = {}
        self._join()
        if self.fires is not None and self.fires not in FIRES:
            raise FlowError(
                f"{self} fires `{self.fires}`", self.place, f"the classes are {', '.join(FIRES)}"
            )
        if self.state is not None and not isinstance(getattr(self.state, "struct", None), Struct):
            raise FlowError(
                f"the state of {self} is no State",
                self.place,
                "write state = Request with class Request(State)",
            )
        if self.state is not None and self.inp is not None and "state" in self.inp.values:
            raise FlowError(
                f"{self} has a state and a value that is called `state`",
                self.place,
                "call the value otherwise",
            )

    def _join(self) -> None:
        """Several inputs become one with the values of all, and things to connect to."""
        found = [
            (n, i)
            for cls in reversed(type(self).__mro__)
            for n, i in vars(cls).items()
            if isinstance(i, In)
        ]
        if len(found) < 2 or "inp" in vars(self):
            return
        for attribute, one in found:
            self.inputs[attribute] = Input(self, attribute, one)
            setattr(self, attribute, self.inputs[attribute])
        every = [value for one in self.inputs.values() for value in one.values]
        twice = next((value for value in every if every.count(value) > 1), None)
        if twice is not None:
            raise FlowError(
                f"two inputs of {self} have a value `{twice}`",
                self.place,
                "the body knows them by name",
            )
        self.inp = In(
            **{name: ty for one in self.inputs.values() for name, ty in one.values.items()}
        )

    def entry(self) -> Element:
        """Where a connection to it leads."""
        if self.inputs:
            names = ", ".join(self.inputs)
            raise FlowError(
                f"{self} has several inputs ({names})",
                caller(),
                f"name one: {self.name}.{next(iter(self.inputs))}",
            )
        return self

    def __rshift__(self, to):
        if len(self.outputs) != 1:
            names = ", ".join(self.outputs) or "none"
            raise FlowError(
                f"{self} has not just one output (there are: {names})",
                caller(),
                "name it: element.out >> …",
            )
        return next(iter(self.outputs.values())) >> to

    def __getattr__(self, name: str):
        # Only called for what is not there; `__init__` may not be done.
        if name.startswith("_") or "outputs" not in vars(self):
            raise AttributeError(name)
        there = ", ".join(f"`{each}`" for each in [*self.outputs, *self.inputs]) or "none"
        raise UnknownPort(f"{self} has no port `{name}` (there are: {there})", caller())

    def add_output(self, name: str, *types: Type) -> Port:
        """An output whose types depend on the instance."""
        port = Port(self, check_name(name, self.place), types)
        self.outputs[name] = port
        setattr(self, name, port)
        return port

    def __str__(self) -> str:
        return f"element `{self.name}`"

    def where(self, attribute: str) -> Place:
        """Where the class is that says something of it."""
        return next(
            (
                cls.defined
                for cls in type(self).__mro__
                if attribute in vars(cls) and cls is not Element
            ),
            self.place,
        )

    def lines(self, target: str = "") -> list[tuple[str, Place]]:
        """The lines of the body, or of the one for a target, with where they are written."""
        body = self.bodies[target] if target else self.body
        text = textwrap.dedent(body).strip("\n")
        first, step = self._first_line(body, target)
        return [
            (line, Place(first.file, first.line + step * at))
            for at, line in enumerate(text.split("\n"))
        ]

    def _first_line(self, body: str, target: str) -> tuple[Place, int]:
        """Where a body begins, and lines of the file for each of its lines: the class's source is
        looked through for all of them, then for its first line. A body in plain quotes is on one
        line of the file."""
        for cls in type(self).__mro__:
            if ("bodies" if target else "body") not in vars(cls):
                continue
            lines = [line.strip() for line in body.strip().split("\n")]
            wanted = lines[0]
            begins = rf"[\"']{re.escape(target)}[\"']\s*:" if target else r"\bbody\s*="
            try:
                source, start = inspect.getsourcelines(cls)
                file = inspect.getsourcefile(cls) or "<unknown>"
            except (OSError, TypeError):
                file, start = cls.defined.file, cls.defined.line
                source = inspect.getblock(linecache.getlines(file)[start - 1 :])
                if not source:
                    break
            there = [line.strip() for line in source]
            for at in range(len(there)):
                if (
                    len(lines) > 1
                    and there[at].endswith(wanted)
                    and there[at + 1 : at + len(lines) - 1] == lines[1:-1]
                ):
                    return Place(file, start + at), 1
            for at, line in enumerate(source):
                if wanted and line.strip().endswith(wanted):
                    return Place(file, start + at), 1
                if wanted and wanted in line and re.search(begins, line):
                    return Place(file, start + at), 0
            return Place(file, start), 0
        return self.place, 0


class Segment:
    """Cores that work off what is behind a queue, or what comes from the network.

    device  "nic" or "host"; None leaves it to the planner.
    cores   how many at most, or which: a core belongs to one segment.
    """

    def __init__(self, name: str, device: str | None = None, cores: int | list[int] | None = None):
        self.place = caller()
        self.name = check_name(name, self.place)
        if device not in (None, "nic", "host"):
            raise FlowError(
                f"segment `{name}` is on `{device}`", self.place, 'a device is "nic" or "host"'
            )
        self.device = device
        self.cores = [] if cores is None or isinstance(cores, int) else list(cores)
        self.replicas = cores if isinstance(cores, int) else len(self.cores) or None
        if cores is not None and (not self.replicas or self.replicas < 1):
            raise FlowError(f"segment `{name}` needs at least one core", self.place)
        for core in self.cores:
            if not isinstance(core, int) or core < 0 or self.cores.count(core) > 1:
                raise FlowError(
                    f"segment `{name}` has cores {self.cores}",
                    self.place,
                    "list numbers from 0, each once",
                )

    def __str__(self) -> str:
        return f"segment `{self.name}`"


class Queue:
    """What is handed to it is handled later, in order: by other cores, or on the other side of the
    host link.

    side       "nic" or "host" pins what is behind it; None leaves it to the planner.
    instances  most physical queues it may be, with one core behind each; entries are spread by the
               key of the tables there.
    segment    says both, and what else shares its cores.
    ordered    False if what is behind it may be overtaken by packets that take another way to the
               same tables.
    channels   names of its logical channels. `queue["gets"]` is then connected as a queue is, with
               types of its own: an entry carries what is used behind its channel, and all channels
               share the instances and their order.
    entries    how many may wait, in each channel; 1024 if only `lossy` is said.
    entry_bytes  most bytes of values an entry may have, beside its packet; more is an error.
    lossy      what a full queue does: True loses the entry, counted; False makes the sender wait;
               or names of the channels that lose, and all others wait. None leaves it to the target
               (docs/flow.md).
    instance   C over the values that go in, or a number: the instance of an entry, below
               `instances`. Entries of one instance are handled by one core at a time, in order;
               entries whose number is out of range are given up, counted. Core `i * cores /
               instances` has instance `i`: with as many cores as instances, core `i`.
    number     field of the state behind the queue that has the number of the instance there.
    """

    def __init__(
        self,
        name: str,
        side: str | None = None,
        instances: int | None = None,
        ordered: bool = True,
        segment: Segment | None = None,
        channels: tuple[str, ...] | list[str] = (),
        entries: int | None = None,
        entry_bytes: int | None = None,
        lossy: bool | tuple[str, ...] | list[str] | None = None,
        instance: str | int | None = None,
        number: str | None = None,
    ):
        self.place = caller()
        self.composites = list(building)
        for composite in building:
            composite.members.append(self)
        self.name = check_name("_".join([*(each.name for each in building), name]), self.place)
        if segment is not None:
            if side is not None or instances is not None:
                raise FlowError(
                    f"queue `{name}` has a segment and a side or instances",
                    self.place,
                    "the segment says them",
                )
            side, instances = segment.device, segment.replicas
        self.segment = segment
        if side not in (None, "nic", "host"):
            raise FlowError(
                f"queue `{name}` is pinned to `{side}`", self.place, 'a side is "nic" or "host"'
            )
        if instances is not None and (not isinstance(instances, int) or instances < 1):
            raise FlowError(f"queue `{name}` needs at least 1 instance", self.place)
        self.side, self.instances, self.ordered = side, instances, ordered
        if number is not None and instance is None:
            raise FlowError(
                f"queue `{name}` has a number for `{number}` and chooses no instance", self.place
            )
        if instance is not None and (instances is None or not isinstance(instance, (str, int))):
            raise FlowError(
                f"queue `{name}` chooses an instance and does not say among how many",
                self.place,
                'write instances=4, instance="key"',
            )
        always = _constant(instance)
        if always is not None and not 0 <= always < instances:
            raise FlowError(
                f"queue `{name}` has {instances} instances and always chooses {always}",
                self.place,
                "count from 0",
            )
        self.instance, self.number = None if instance is None else str(instance), number
        if entries is not None and (not isinstance(entries, int) or not 1 <= entries <= 65536):
            raise FlowError(
                f"queue `{name}` has room for {entries} entries", self.place, "take 1 to 65536"
            )
        listed = lossy if isinstance(lossy, (tuple, list)) else ()
        unknown = [each for each in listed if each not in channels]
        if unknown or isinstance(lossy, str):
            named = unknown[0] if unknown else lossy
            raise FlowError(
                f"queue `{name}` has no channel `{named}` that could lose",
                self.place,
                "name one of its channels",
            )
        said = entries is not None or lossy is not None
        #: How many entries wait, and whether one more is lost; None leaves it to the target.
        if entry_bytes is not None and (not isinstance(entry_bytes, int) or entry_bytes < 0):
            raise FlowError(f"queue `{name}` has entries of {entry_bytes} bytes", self.place)
        self.entry_bytes = entry_bytes
        self.room: tuple[int, bool] | None = (entries or 1024, bool(lossy)) if said else None
        self.to: Element | None = None
        #: The queue whose channel this is; itself without channels.
        self.whole: Queue = self
        self.channels: dict[str, Queue] = {}
        if isinstance(channels, str) or not all(isinstance(channel, str) for channel in channels):
            raise FlowError(
                f"the channels of queue `{name}` are no names",
                self.place,
                'write channels=["gets", "sets"]',
            )
        for channel in channels:
            if channel in self.channels:
                raise FlowError(f"queue `{name}` has two channels `{channel}`", self.place)
            loses = channel in lossy if isinstance(lossy, (tuple, list)) else lossy
            part = Queue(
                f"{name}_{check_name(channel, self.place)}",
                self.side,
                self.instances,
                ordered,
                entries=entries,
                entry_bytes=entry_bytes,
                lossy=loses,
                instance=instance,
                number=number,
            )
            part.place, part.segment, part.whole = self.place, segment, self
            self.channels[channel] = part
        if self.channels:
            for composite in self.composites:
                composite.members.remove(self)

    def __getitem__(self, channel: str) -> Queue:
        if channel not in self.channels:
            names = ", ".join(f"`{each}`" for each in self.channels) or "none"
            raise FlowError(f"{self} has no channel `{channel}` (there are: {names})", caller())
        return self.channels[channel]

    def entry(self) -> Queue:
        """Where a connection to it leads."""
        if self.channels:
            raise FlowError(
                f"{self} has channels", caller(), f'name one: queue["{next(iter(self.channels))}"]'
            )
        return self

    def __rshift__(self, to):
        self.entry()
        target = _target(self, to)
        if isinstance(target, Input):
            raise FlowError(
                f"{self} leads to {target}",
                caller(),
                "behind a queue is an element: put one between",
            )
        if not isinstance(target, Element):
            raise FlowError(f"{self} can be connected to an element only", caller())
        if self.to is not None:
            raise FlowError(
                f"{self} leads to {self.to} already",
                caller(),
                "put one element behind it that has several outputs",
            )
        self.to = target
        return to

    def __str__(self) -> str:
        if self.whole is not self:
            return f"channel `{self.name.removeprefix(self.whole.name + '_')}` of {self.whole}"
        return f"queue `{self.name}`"


def _constant(instance: str | int | None) -> int | None:
    """The number that is written there, if it is one."""
    try:
        return instance if instance is None or isinstance(instance, int) else int(instance, 0)
    except ValueError:
        return None


def behind(to: Element | Queue | Input) -> Element:
    """The element that a connection leads to, also through a queue."""
    element = to.to if isinstance(to, Queue) else to
    return element.element if isinstance(element, Input) else element


def structs_of(types: list[Type]) -> list[Struct]:
    """All structs among types, members first, each once."""
    found: dict[str, Struct] = {}

    def add(ty: Type) -> None:
        if not isinstance(ty, Struct):
            return
        for member in ty.members.values():
            add(base_of.get(member.c, member))
        known = found.setdefault(ty.name, ty)
        if known is not ty:
            raise FlowError(
                f"there are two structs `{ty.name}`", ty.place, f"the other one is at {known.place}"
            )

    base_of = {ty.c: ty for ty in types if isinstance(ty, Struct)}
    for ty in types:
        add(ty)
    return list(found.values())


def _snake(name: str) -> str:
    return "".join(
        "_" + c.lower() if c.isupper() and at else c.lower() for at, c in enumerate(name)
    )
