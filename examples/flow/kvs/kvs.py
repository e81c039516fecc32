"""A memcached for small items, divided between NIC and host in three ways.

    python3 kvs.py --variant nic-cache --self-test        # served on XDP and AF_XDP, compared with a real memcached
    python3 kvs.py --variant split plan --target xdp      # any command of nicforge

cpu        the NIC side picks the store's packets out, the host does everything
split      the NIC side reads and checks GETs of the binary protocol, the host reads the rest, stores and answers
nic-cache  GETs of the binary protocol are answered on the NIC side from a table there; everything else goes to the host

**Why nic-cache never answers with something old.** The host handles requests one after the other, and whatever it answers
goes back through one queue to one handler of the NIC side (`nicforge.flow.Cache`), which first changes the cache and then
sends the answer. So the cache, key by key, is what the store was at some point of the host's order, and that point only
moves on: fills and updates arrive in the order in which the host made them. A SET's answer leaves after its update is in
the cache, so a GET that begins later finds that value or a newer one, here or on the host. A GET that missed was answered
on the host; its answer too leaves after its fill, so no later GET is answered from a cache that is further back. A fill
that races with a SET of the same key is in front of that SET's update or behind it, as the host handled them, never
between with the wrong value. Evictions take entries away, never back. A lost event on the way back loses its answer with
it: the client sees a request without an answer, which may or may not have happened, and what the cache keeps is still a
value that nobody was told is gone.
One thing is asked of the interface: the packets of one key are handled by one CPU at a time (one queue, or steering by key).
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
    Item,
    Key,
    Leave,
    Parse,
    ParseBinary,
    Request,
    Store,
    Stored,
)
from nicforge.flow import Cache, Drop, Element, FromNet, In, Out, Program, Queue, Reply, ToSystem, packet  # noqa: E402

VARIANTS = ("cpu", "split", "nic-cache")
#: Entries of the cache on the NIC side.
CACHED = 32768


class MissedBack(Element):
    """The host reads the request again; nothing but the packet goes there."""

    inp = In(pkt=packet, request=Request)
    out = Out(packet)
    body = "out(pkt);"


def program(variant: str) -> Program:
    """The store in one of its variants."""
    network, classify, parse, find, put = FromNet(), Classify(), Parse(), Find(), Store()
    ways, ascii_value, binary_value, absent, stored = IsAscii(), AsciiValue(), BinaryValue(), Absent(), Stored()
    network >> classify
    classify.other >> ToSystem()
    find.hit >> ways
    find.miss >> absent
    ways.ascii >> ascii_value
    ways.binary >> binary_value
    put.stored >> stored
    put.full >> Drop("the store is full", name="full")
    parse.other >> Drop("not a request for this store", name="unknown")
    requests = Queue("requests", side="host")
    requests >> parse
    parse.get >> find
    parse.set >> put
    if variant == "cpu":
        classify.kv >> requests
    else:
        quick = ParseBinary()
        classify.kv >> quick
        quick.rest >> requests
    if variant == "split":
        quick.get >> Queue("gets", side="host") >> find
    if variant == "nic-cache":
        near, carried = Cache("cache", Key, Item, CACHED), {"request": Request, "item": Item}
        get = near.get("request.key", request=Request)
        quick.get >> get
        get.hit >> BinaryValue(name="near_value") >> Leave(name="near_leave")
        get.miss >> MissedBack() >> requests
        for value in (ascii_value, binary_value):
            value >> near.fill("request.key", "item", **carried)
        stored >> near.update("request.key", "item", **carried)
        absent >> near.nothing(**carried)
        near.settled >> Reply()
    else:
        leave = Leave()
        for answer in (ascii_value, binary_value, stored, absent):
            answer >> leave
    return Program("kvs_" + variant.replace("-", "_"), network, ports=1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--variant", choices=VARIANTS, default="nic-cache")
    parser.add_argument("--self-test", action="store_true", help="serve it in a network namespace and check its answers")
    options, rest = parser.parse_known_args()
    if options.self_test:
        from selftest import run

        sys.exit(run(options.variant))
    program(options.variant).main(rest)


if __name__ == "__main__":
    main()
