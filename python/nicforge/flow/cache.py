"""A cache on the NIC side, in front of state that the host has.

    near = Cache("near", Key, Item, buckets=8192, ways=4, policy="write-back", on_miss="allocate")
    up = Queue("up", side="host", ordered=False, channels=["requests", "late", "displaced"])
    get = near.get("request.key", request=Request)              # hit: with the item; miss: as it came
    set = near.set("request.key", "item", request=Request, item=Item)
    get.miss >> up["requests"] >> find
    find.hit >> answer >> near.fill("request.key", "item", request=Request, item=Item)
    find.miss >> absent >> near.nothing(request=Request)
    near.settled >> Reply()
    set.done >> stored >> Reply()
    set.busy >> up["late"] >> late >> near.update("request.key", "item", request=Request, item=Item)
    near.displaced >> up["displaced"] >> put >> near.written("key", key=Key)

**Regions.** From `get.miss` or `set.busy` to `fill`, `update` or `nothing` a request is on its way to the state and back; so
is, from `near.displaced` to `written`, an entry that had to make room. `regions.py` checks the
graph: what leaves a region anywhere else, or takes another way to the state than the region's,
would break the rules below.

**Places.** A bucket (chosen by a hash of the key) has `ways` places, and the least recently used one makes room. Each place
has a tag, the key's hash. All of it is in arrays by the bucket's number, so that cores can have
buckets of their own. What is evicted is the program's and the same on every target, which it is not
for tables of kind `lru`, and can be handed on.

**Write-through.** Writes go to the host like all else that is not a hit, and end in `update`. `on_miss` says whether an
update of a key that is not in the cache brings it there. Everything the host answers goes through
one queue to one handler of the NIC side, which changes the cache and then lets the answer go on.
That is the whole rule. It keeps, key by key, the cache at some point of the host's order, which
only moves on; and no answer leaves before the cache has reached the point it was made at. So a read
that begins after an answer finds at least what that answer knew, whatever was filled, evicted or
written in between, and also if answers are lost.

**Write-back.** `set` writes into the cache and is done; the host gets the entry when it has to make room. The value of a key
is the cache's if it has one, else what the host has once it has handled everything that was handed
to it. So a miss, which follows all earlier entries of its key in one queue, reads the value of the
time at which it missed, and may answer with that whatever was written since. It may not always be
filled in: between the miss and its answer the key may have been written, displaced, and so be
absent again. Therefore a bucket counts what it displaced (`written`), the host counts per bucket
what it has stored (`stored`) and sends that along; a fill is made only if both are equal, that is
if nothing was displaced since the miss, and the key is still absent. The same counts keep entries
from being lost on a queue that loses when it is full: a bucket has at most one of them under way,
so a queue with room for `buckets` never overflows. While one is, clean entries make room; if there
is none, the write is `busy` and goes to the host like a miss (or is dropped, which the client sees
as a lost request). It comes before everything that leaves the bucket later, and its answer, before
it leaves, replaces what an earlier answer of the host brought; what was written into the cache
since is dirty, and stays. Counts that a lost message brought are made up for by the next one. Not
protected: a host that dies takes what it had not stored with it, and what the host refuses to store
(a full table) was acknowledged before.

**Answers come back** to a stage that the host has its requests from. Where queues lose what does not fit (`xdp`) nobody
waits for anybody, and the above says why a lost answer harms nothing: its client asks again.
Elsewhere queues wait, and would wait for one another; but what a packet leads to has a bound, since
elements form no circle, and so many packets are let in that all queues have room for everything
that these can lead to. So nothing is lost, no queue has to say how long it is, and `answers` need
not lose (`runtime/dpdk/nf_main.h`, NF_ROUND).

Packets of one key must be handled by one CPU at a time. (Adapted from Floem, OSDI'18, section 3.3,
whose caches insert what comes late, and lose the write in between.)
"""

from __future__ import annotations

from . import cache_code as code
from .element import Element, In, Out, Queue
from .errors import FlowError, caller
from .types import Struct, Table, Type, check_name, packet, u8, u32

POLICIES = ("write-through", "write-back")
ON_MISS = ("allocate", "no-allocate")


class Cache:
    """`buckets` × `ways` values by key.

    policy   "write-through": writes go to the host first; "write-back": when their place is needed.
    on_miss  whether a write of a key that is not in the cache brings it there: "allocate" or
             "no-allocate".

    `settled` gives the packets whose answers may leave, `displaced` (write-back) keys and values
    for the host; connect them.
    """

    def __init__(
        self,
        name: str,
        key: Type,
        value: Type,
        buckets: int,
        ways: int = 4,
        policy: str = "write-through",
        on_miss: str | None = None,
    ):
        self.place = caller()
        self.name, self.key, self.value = check_name(name, self.place), key, value
        self.buckets, self.ways, self.policy = buckets, ways, policy
        if policy not in POLICIES:
            raise FlowError(
                f"{self} has policy `{policy}`",
                self.place,
                f"the policies are {', '.join(POLICIES)}",
            )
        on_miss = (
            on_miss
            if on_miss is not None
            else ("allocate" if policy == "write-back" else "no-allocate")
        )
        if on_miss not in ON_MISS:
            raise FlowError(
                f"{self} has on_miss `{on_miss}`", self.place, f"write one of {', '.join(ON_MISS)}"
            )
        if policy == "write-back" and on_miss == "no-allocate":
            raise FlowError(
                f"{self} is write-back without allocation",
                self.place,
                'what is written has no other place: take on_miss="allocate", or policy="write-through"',
            )
        if not isinstance(ways, int) or not 1 <= ways <= 16:
            raise FlowError(f"{self} has {ways} ways", self.place, "take 1 to 16")
        if not isinstance(buckets, int) or buckets < 1:
            raise FlowError(f"{self} needs at least 1 bucket", self.place)
        self.allocates, self.back = on_miss == "allocate", policy == "write-back"
        counts = ("clock", "last", "dirty", "written", "stored")
        head = {"used": u32[ways], "tag": u32[ways], **dict.fromkeys(counts, u32)}
        self.head = Struct(f"{name}_head", **head)
        self.heads = Table(name, "array", u32, self.head, buckets, self.place)
        keys = Table(f"{name}_keys", "array", u32, key, buckets * ways, self.place)
        values = Table(f"{name}_values", "array", u32, value, buckets * ways, self.place)
        self.own = (self.heads, keys, values)
        self._made = 0
        channels = ("answers", "stored") if self.back else ("answers",)
        self.answers = Queue(f"{name}_back", side="nic", ordered=False, channels=channels)
        self._settle()

    def _settle(self) -> None:
        """What is done with everything that comes back, and with what is displaced."""
        values = {
            "key": self.key,
            "value": self.value,
            "change": u8,
            **({"stored": u32} if self.back else {}),
        }
        evicts = {"displaced": Out(self.key, self.value)} if self.back else {}
        outputs = {"out": Out(packet), **evicts}
        settle = self._new(
            "settle", In(pkt=packet, **values), outputs, code.settle(self), self.own, number=False
        )
        self.answers["answers"] >> settle
        self.settled = settle.out
        if not self.back:
            return
        self.known = Table(f"{self.name}_stored", "array", u32, u32, self.buckets, self.place)
        both = In(key=self.key, value=self.value)
        out = {"out": Out(self.key, self.value)}
        self.displaced = self._new("displaced", both, out, "out(key, value);", (), number=False)
        self.displaced.region = (self, "start", ("out",))
        settle.displaced >> self.displaced
        note = self._new(
            "note", In(at=u32, stored=u32), {}, code.note(self), self.own, number=False
        )
        self.answers["stored"] >> note

    def get(self, key: str, /, **carried: Type) -> Element:
        """Looks up; `key` is C over what the packet carries. `hit` has the value behind it, `miss`
        is as it came."""
        types = (packet, *carried.values())
        outputs = {"hit": Out(*types, self.value), "miss": Out(*types)}
        body = code.get(self, key, list(carried))
        element = self._new("get", In(pkt=packet, **carried), outputs, body, self.own)
        element.region = (self, "start", ("miss",))
        return element

    def set(self, key: str, value: str, /, **carried: Type) -> Element:
        """Writes, in a write-back cache: `done` may be answered; `busy` finds no place now, for the
        host or to be dropped."""
        if not self.back:
            raise FlowError(
                f"{self} is write-through",
                caller(),
                "writes go to the host; `update` is where they end",
            )
        types = (packet, *carried.values())
        outputs = {"done": Out(*types), "busy": Out(*types), "displaced": Out(self.key, self.value)}
        body = code.set(self, key, value, list(carried))
        element = self._new("set", In(pkt=packet, **carried), outputs, body, self.own)
        element.displaced >> self.displaced
        element.region = (self, "start", ("busy",))
        return element

    def fill(self, key: str, value: str, /, **carried: Type) -> Element:
        """The host's answer to a miss: from now on the NIC side knows this value."""
        return self._change("fill", code.FILL, key, value, carried)

    def update(self, key: str, value: str, /, **carried: Type) -> Element:
        """The host's answer to a write: replaces what the NIC side knows; in a write-back cache, of
        a clean entry."""
        return self._change("update", code.UPDATE, key, value, carried)

    def nothing(self, **carried: Type) -> Element:
        """An answer that changes nothing. It takes the same way, so that it does not overtake what
        it knew of."""
        return self._end("nothing", carried, code.nothing(self), ())

    def written(self, key: str, /, **carried: Type) -> Element:
        """The host has stored what was displaced, or refused it for good."""
        if not self.back:
            raise FlowError(
                f"{self} is write-through: it displaces nothing that the host does not have",
                caller(),
            )
        outputs = {"out": Out(u32, u32)}
        element = self._new(
            "written", In(**carried), outputs, code.written(self, key), (self.known,)
        )
        element.region = (self, "end", ())
        element.out >> self.answers["stored"]
        return element

    def _change(
        self, what: str, change: int, key: str, value: str, carried: dict[str, Type]
    ) -> Element:
        return self._end(
            what, carried, code.change(self, key, value, change), (self.known,) if self.back else ()
        )

    def _end(self, what: str, carried: dict[str, Type], body: str, tables: tuple) -> Element:
        outputs = {"out": Out(packet, self.key, self.value, u8, *([u32] if self.back else []))}
        element = self._new(what, In(pkt=packet, **carried), outputs, body, tables)
        element.region = (self, "end", ())
        element.out >> self.answers["answers"]
        return element

    def _new(
        self, what: str, inp: In, outputs: dict, body: str, tables: tuple, number: bool = True
    ) -> Element:
        """An element of a class of its own."""
        self._made += number
        name = f"{self.name}_{what}" + (f"_{self._made}" if number else "")
        of = {"inp": inp, "body": body, "tables": tables, "structs": (self.head,), **outputs}
        return type("CacheElement", (Element,), of)(name)

    def __str__(self) -> str:
        return f"cache `{self.name}`"
