"""A memcached for small items, divided between NIC and host in several ways.

    python3 kvs.py --variant nic-cache --self-test              # served on XDP and AF_XDP, compared with a real memcached
    python3 kvs.py --variant nic-cache --policy write-back --self-test --target dpdk
    python3 kvs.py --bench                                            # CPU time of a request on each side
    python3 kvs.py --variant split plan --target xdp                  # any command of nicforge
    python3 kvs.py tune --target xdp --pcap requests.pcap             # sizes of the cache, by measurement

cpu        the NIC side picks the store's packets out, the host does everything
sharded    the NIC side reads requests as far as their key, which chooses one of the host's threads
           and its part of the items
split      the NIC side reads and checks requests of the binary protocol, the host reads the rest,
           stores and answers
nic-cache  a cache on the NIC side answers what it can (nicforge.flow.Cache says why nothing is
stale):
           write-through  GETs of the binary protocol are looked up; everything else goes to the
                          host and passes the cache on its way back
           write-back     requests of both protocols are read on the NIC side and pass the cache; it
                          answers SETs, and the host gets items that have to make room, and SETs for
                          which none can be made at once

With write-through, the packets of one key must be handled by one CPU at a time (one queue, or
steering by key). With write-back (and `--stage`) the cache is a stage of its own: one CPU works at
it on XDP, cores with buckets of their own on a NIC.
"""

import argparse
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "python"))
from elements import (  # noqa: E402
    Absent,
    AsciiValue,
    BinaryValue,
    Classify,
    Find,
    IsAscii,
    IsWrite,
    Item,
    Key,
    Leave,
    ReadGet,
    ReadKey,
    ReadValue,
    Request,
    Store,
    Stored,
    StoreDisplaced,
)
from nicforge.flow import (  # noqa: E402
    Cache,
    Choices,
    Drop,
    Element,
    FromNet,
    In,
    Out,
    Program,
    Queue,
    Reply,
    ToSystem,
    packet,
)

VARIANTS = ("cpu", "sharded", "split", "nic-cache")
POLICIES = ("write-through", "write-back")
#: Threads of the host with a part of the items each, in the sharded variant.
THREADS = 2
#: Places of the cache on the NIC side.
BUCKETS, WAYS = 8192, 4
CARRIED = {"request": Request, "item": Item}


class Again(Element):
    """The host reads the request again; nothing but the packet goes there."""

    inp = In(pkt=packet, request=Request)
    out = Out(packet)
    body = "out(pkt);"


class Requests:
    """Reads requests of both protocols: GETs of the binary one first, the rest in two steps;
    `gets`, `sets` come out."""

    def __init__(self, values: Queue | None = None):
        """`values`: a queue before what SETs hold is read, since BPF's stack has no room for both
        steps."""
        self.first, self.key, self.value = ReadGet(), ReadKey(), ReadValue()
        self.gets, self.sets = (self.first.get, self.key.get), (self.value.set,)
        unknown = Drop("not a request for this store", name="unknown")
        self.key.other >> unknown
        self.value.other >> unknown
        if values:
            self.first.rest >> self.key
            self.key.set >> values >> self.value
        else:
            self.key.set >> self.value


def store(find: Find, put: Store | None) -> tuple:
    """What is behind the state: elements whose answers may leave, as (values, stored, absent)."""
    ways, text, binary, absent, stored = IsAscii(), AsciiValue(), BinaryValue(), Absent(), Stored()
    find.hit >> ways
    ways.ascii >> text
    ways.binary >> binary
    find.miss >> absent
    if put is not None:
        put.stored >> stored
        put.full >> Drop("the store is full", name="full")
    return (text, binary), stored, absent


def on_the_host(classify: Classify, split: bool) -> None:
    """Everything behind a queue to the host; with `split`, GETs of the binary protocol are read
    before it."""
    find, put, requests, leave = Find(), Store(), Requests(), Leave()
    up = Queue("up", side="host", channels=["requests", "gets"] if split else ["requests"])
    if split:
        classify.kv >> requests.first
        requests.first.rest >> up["requests"] >> requests.key
        requests.first.get >> up["gets"] >> find
    else:
        classify.kv >> up["requests"] >> requests.first
        requests.first.rest >> requests.key
        requests.first.get >> find
    requests.key.get >> find
    requests.value.set >> put
    values, stored, absent = store(find, put)
    for answer in (*values, stored, absent):
        answer >> leave


def sharded(classify: Classify, threads: int) -> None:
    """The host in several threads. One queue carries reads and writes, so that those of a key stay
    in order."""
    first, key, value = ReadGet(), ReadKey(), ReadValue()
    find, put, ways, leave = Find(), Store(), IsWrite(), Leave()
    unknown = Drop("not a request for this store", name="unknown")
    shard = Queue("shard", side="host", instances=threads)
    classify.kv >> first
    first.rest >> key
    for each in (first.get, key.get, key.set):
        each >> shard
    shard >> ways
    ways.get >> find
    ways.set >> value
    value.set >> put
    key.other >> unknown
    value.other >> unknown
    values, stored, absent = store(find, put)
    for answer in (*values, stored, absent):
        answer >> leave


def write_through(classify: Classify, buckets: int, ways: int, stage: bool) -> None:
    """GETs of the binary protocol are looked up before they go to the host, which reads all
    others."""
    near = Cache("cache", Key, Item, buckets, ways, policy="write-through")
    quick, requests, find, put = ReadGet(name="quick"), Requests(), Find(), Store()
    # With the cache as a stage of its own they come by two ways, and none waits for another's
    # answer.
    up = Queue("requests", side="host", ordered=not stage)
    classify.kv >> quick
    get = near.get("request.key", request=Request)
    if stage:
        quick.get >> Queue("cached", side="nic", ordered=False) >> get
    else:
        quick.get >> get
    get.hit >> BinaryValue(name="near_value") >> Leave(name="near_leave")
    get.miss >> Again() >> up
    quick.rest >> up
    up >> requests.first
    requests.first.rest >> requests.key
    for each in requests.gets:
        each >> find
    requests.value.set >> put
    values, stored, absent = store(find, put)
    for value in values:
        value >> near.fill("request.key", "item", **CARRIED)
    stored >> near.update("request.key", "item", **CARRIED)
    absent >> near.nothing(**CARRIED)
    near.settled >> Reply()


def write_back(classify: Classify, buckets: int, ways: int) -> None:
    """Requests of both protocols pass the cache, which answers hits in either and all SETs."""
    near = Cache("cache", Key, Item, buckets, ways, policy="write-back")
    values = Queue("values", side="nic", ordered=False)
    cached = Queue("cached", side="nic", ordered=False, channels=["gets", "sets"])
    up = Queue("up", side="host", ordered=False, channels=["gets", "late", "displaced"])
    requests, find, ways = Requests(values=values), Find(), IsAscii(name="near_ways")
    get, set_ = near.get("request.key", request=Request), near.set("request.key", "item", **CARRIED)
    classify.kv >> requests.first
    for each in requests.gets:
        each >> cached["gets"]
    requests.value.set >> cached["sets"]
    cached["gets"] >> get
    cached["sets"] >> set_
    get.hit >> ways
    ways.binary >> BinaryValue(name="near_value") >> Leave(name="near_leave")
    ways.ascii >> AsciiValue(name="near_text") >> Leave(name="text_leave")
    get.miss >> up["gets"] >> find
    put = Store()
    found, stored, absent = store(find, put)
    for value in found:
        value >> near.fill("request.key", "item", **CARRIED)
    absent >> near.nothing(**CARRIED)
    near.settled >> Reply()
    set_.done >> Stored(name="near_stored") >> Leave(name="stored_leave")
    set_.busy >> up["late"] >> put
    stored >> near.update("request.key", "item", **CARRIED)
    near.displaced >> up["displaced"] >> StoreDisplaced() >> near.written("key", key=Key)


def program(
    variant: str,
    policy: str = "write-through",
    buckets: int = BUCKETS,
    ways: int = WAYS,
    threads: int = THREADS,
    stage: bool = False,
) -> Program:
    """The store in one of its variants."""
    network, classify = FromNet(), Classify()
    network >> classify
    classify.other >> ToSystem()
    if variant == "sharded":
        sharded(classify, threads)
    elif variant != "nic-cache":
        on_the_host(classify, split=variant == "split")
    elif policy == "write-through":
        write_through(classify, buckets, ways, stage)
    else:
        write_back(classify, buckets, ways)
    name = variant if policy == "write-through" else f"{variant}-{policy}"
    return Program("kvs_" + name.replace("-", "_"), network, ports=1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--variant", choices=VARIANTS, default="nic-cache")
    parser.add_argument("--policy", choices=POLICIES, default="write-through", help="of nic-cache")
    parser.add_argument("--buckets", type=int, default=BUCKETS, help="of the cache")
    parser.add_argument("--ways", type=int, default=WAYS, help="places of a bucket")
    parser.add_argument(
        "--threads", type=int, default=THREADS, help="of the host, in the sharded variant"
    )
    parser.add_argument(
        "--stage",
        action="store_true",
        help="the cache is a stage of its own, which cores of a NIC can share",
    )
    parser.add_argument(
        "--self-test",
        action="store_true",
        help="serve it in a network namespace and check its answers",
    )
    parser.add_argument(
        "--bench", action="store_true", help="what a request costs on each side, every variant"
    )
    parser.add_argument("--requests", type=int, default=50_000, help="of --bench")
    options, rest = parser.parse_known_args()
    if options.policy != "write-through" and options.variant != "nic-cache":
        parser.error("--policy is for --variant nic-cache")
    names = ("variant", "policy", "buckets", "ways", "threads", "stage")
    given = {name: getattr(options, name) for name in names}
    if options.bench:
        from bench import run as bench

        sys.exit(bench(options.requests))
    if options.self_test:
        from selftest import run

        sys.exit(run(given, rest))
    if rest[:1] == ["tune"]:
        sized = lambda **sizes: program(**{**given, **sizes})  # noqa: E731
        Choices(sized, ways=[1, 2, 4], buckets=[BUCKETS, 4 * BUCKETS]).main(rest)
    program(**given).main(rest)


if __name__ == "__main__":
    main()
