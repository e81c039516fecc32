"""Tuples of a node's worker for its own node, handed over past the NIC or by way of it, for
`nicforge validate flow`.

    python3 tuples.py queue|bypass           # prints the C

The elements are those of examples/flow/analytics. The simulator has no worker that sends, so tuples
come in as frames, one each.
"""

import sys

from analytics import Body, Pass, Route, Tell, Tuple
from nicforge.flow import (
    CallableSegment,
    Discard,
    Drop,
    Element,
    FromNet,
    In,
    Out,
    Program,
    Queue,
    packet,
)


class Sent(Element):
    """What a worker would have sent: a tuple for task 0."""

    inp = In(pkt=packet)
    tuple = Out(Tuple)
    done = Out(packet)
    structs = (Body,)
    body = """
        struct body body;
        if (!nf_load(pkt, 50, &body)) {
            nf_drop(pkt, "too short");
            return;
        }
        struct tuple value = {nf_ntohl(body.task) & 0xfe, 0, nf_ntohl(body.count), body.word};
        tuple(value);
        done(pkt);
    """


def program(variant: str) -> Program:
    network, sent, route, tell = FromNet(), Sent(), Route(NODE=0), Tell()
    worker = CallableSegment(receives=tell.heard.types[0], name="worker")
    network >> sent
    sent.done >> Drop("its tuple is under way")
    sent.tuple >> Queue("tuples", side="host", ordered=False) >> route
    route.there >> Discard(Tuple)
    tell.heard >> worker
    if variant == "bypass":
        route.here >> tell
    else:
        (
            route.here
            >> Queue("round", side="nic", ordered=False)
            >> Pass()
            >> Queue("arrived", side="host", ordered=False)
            >> tell
        )
    return Program("tuples", network, ports=1)


if __name__ == "__main__":
    print(program(sys.argv[1]).source().text, end="")
