"""The program whose cache hit rates `nicforge validate flow` measures: numbered keys, cached in
front of a store.

    python3 hits.py BUCKETS WAYS POLICY     # prints the C

A request is a key and whether it writes. Answers leave by port 1 if the NIC side made them, by port
0 if the host did.
"""

import sys

from nicforge.flow import (
    Cache,
    Drop,
    Element,
    FromNet,
    In,
    Out,
    Program,
    Queue,
    Struct,
    Table,
    ToNet,
    packet,
    u32,
)

Key, Value = Struct("key", number=u32), Struct("value", number=u32)
Request = Struct("request", key=Key, write=u32, value=Value)
store = Table("store", "hash", Key, Value, 131072)


class Read(Element):
    inp = In(pkt=packet)
    get = Out(packet, Request)
    set = Out(packet, Request)
    body = """
        struct request request;
        if (!nf_load(pkt, 0, &request))
            nf_drop(pkt, "too short");
        else if (request.write)
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


class AnswerHere(Element):
    inp = In(pkt=packet, request=Request, cached=Value)
    out = Out(packet, u32)
    body = "out(pkt, 1);"


class Written(Element):
    inp = In(pkt=packet, request=Request)
    out = Out(packet, u32)
    body = "out(pkt, 1);"


class Far(Element):
    inp = In(pkt=packet)
    out = Out(packet, u32)
    body = "out(pkt, 0);"


def program(buckets: int, ways: int, policy: str) -> Program:
    network, read, find, far = FromNet(), Read(), Find(), Far()
    near = Cache("near", Key, Value, buckets, ways, policy=policy, on_miss="allocate")
    up = Queue("up", side="host", ordered=False, channels=["reads", "writes"])
    get = near.get("request.key", request=Request)
    network >> read
    read.get >> get
    get.hit >> AnswerHere() >> ToNet(name="to_net_near")
    get.miss >> up["reads"] >> find
    find.hit >> near.fill("request.key", "request.value", request=Request)
    find.miss >> near.nothing(request=Request)
    near.settled >> far >> ToNet(name="to_net_far")
    if policy == "write-back":
        write = near.set("request.key", "request.value", request=Request)
        read.set >> write
        write.done >> Written() >> ToNet(name="to_net_written")
        write.busy >> Drop("busy", Request)
        near.displaced >> up["writes"] >> PutDisplaced() >> near.written("key", key=Key)
    else:
        (
            read.set
            >> up["writes"]
            >> Put()
            >> near.update("request.key", "request.value", request=Request)
        )
    return Program("hits", network)


if __name__ == "__main__":
    print(program(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]).source().text, end="")
