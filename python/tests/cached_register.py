"""Registers behind a cache: reads and writes of numbered keys, for every policy. Answers say when
their request began."""

import struct

from nicforge.flow import (
    Cache,
    Drop,
    Element,
    FromNet,
    In,
    Out,
    Program,
    Queue,
    Reply,
    Struct,
    Table,
    packet,
    u32,
    u64,
)

Key = Struct("key", number=u32)
Value = Struct("value", version=u32)
Request = Struct("request", began=u64, write=u32, key=Key, value=Value)
store = Table("store", "hash", Key, Value, 1024)
#: The same, as bytes of a frame.
LAYOUT = struct.Struct("<QIII")
#: In place of the write flag, in answers to reads: the NIC side knew.
HIT = 2
POLICIES = [
    ("write-through", "no-allocate"),
    ("write-through", "allocate"),
    ("write-back", "allocate"),
]


class Read(Element):
    """A request of the test: where it is to go."""

    inp = In(pkt=packet)
    get = Out(packet, Request)
    set = Out(packet, Request)
    body = """
        struct request request;
        if (!nf_load(pkt, 0, &request)) {
            nf_drop(pkt, "too short");
            return;
        }
        request.began = nf_now();
        if (request.write)
            set(pkt, request);
        else
            get(pkt, request);
    """


class Find(Element):
    inp = In(pkt=packet, request=Request)
    hit = Out(packet, Request)
    miss = Out(packet, Request)
    tables = (store,)
    body = """
        if (nf_lookup(&store, request.key, &request.value))
            hit(pkt, request);
        else
            miss(pkt, request);
    """


class Put(Element):
    inp = In(pkt=packet, request=Request)
    out = Out(packet, Request)
    tables = (store,)
    body = "nf_update(&store, request.key, request.value);\nout(pkt, request);"


class PutDisplaced(Element):
    inp = In(key=Key, value=Value)
    out = Out(Key)
    tables = (store,)
    body = "nf_update(&store, key, value);\nout(key);"


class Answer(Element):
    """Writes the answer; what is cached is in it already."""

    inp = In(pkt=packet, request=Request)
    out = Out(packet, Request)
    body = "nf_store(pkt, 0, &request);\nout(pkt, request);"


class AnswerCached(Element):
    inp = In(pkt=packet, request=Request, cached=Value)
    out = Out(packet)
    body = (
        f"request.value = cached;\nrequest.write = {HIT};\nnf_store(pkt, 0, &request);\nout(pkt);"
    )


class Leave(Element):
    inp = In(pkt=packet, request=Request)
    body = "nf_send(pkt, 0);"


def program(policy: str, on_miss: str, buckets: int, ways: int, late: bool = False) -> Program:
    """`late`: the host takes what finds a write-back cache busy, which is given up otherwise."""
    network, read, find = FromNet(), Read(), Find()
    near = Cache("near", Key, Value, buckets, ways, policy=policy, on_miss=on_miss)
    up = Queue(
        "up",
        side="host",
        ordered=False,
        channels=["reads", "writes", "late"] if late else ["reads", "writes"],
    )
    get = near.get("request.key", request=Request)
    network >> read
    read.get >> get
    get.hit >> AnswerCached() >> Reply()
    get.miss >> up["reads"] >> find
    find.hit >> Answer() >> near.fill("request.key", "request.value", request=Request)
    find.miss >> Answer() >> near.nothing(request=Request)
    near.settled >> Reply()
    if policy == "write-back":
        set_ = near.set("request.key", "request.value", request=Request)
        read.set >> set_
        set_.done >> Answer() >> Leave()
        if late:
            written = near.update("request.key", "request.value", request=Request)
            set_.busy >> up["late"] >> Put() >> Answer(name="answer_late") >> written
        else:
            set_.busy >> Drop("busy", Request)
        near.displaced >> up["writes"] >> PutDisplaced() >> near.written("key", key=Key)
    else:
        (
            read.set
            >> up["writes"]
            >> Put()
            >> Answer()
            >> near.update("request.key", "request.value", request=Request)
        )
    return Program("registers", network, ports=1)
