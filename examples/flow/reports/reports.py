"""Reports about packets, eight in an entry of the queue to the host.

    python3 reports.py verify --pcap ../../flow_stats/traffic.pcap --target dpdk
    python3 reports.py build --emit host -o DIR     # the header for a clock, see README.md

On the NIC side a packet's source and size go two ways and meet again in a report; the packet is
answered at once. Reports are collected and leave when there are eight, or when the oldest has
waited 100 µs. The host counts by source.
"""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "python"))
from nicforge.flow import (  # noqa: E402
    Batcher,
    CallableSegment,
    Debatcher,
    Drop,
    Element,
    Field,
    FromNet,
    In,
    Out,
    Program,
    Queue,
    Reply,
    State,
    Struct,
    Table,
    Tick,
    be32,
    packet,
    u16,
    u32,
    u64,
)

Report = Struct("report", source=be32, size=u32)
Sum = Struct("sum", packets=u64, bytes=u64)
sums = Table("sums", "hash", be32, Sum, 4096)


class Request(State):
    """What is known of a packet on its way."""

    source = Field(be32)
    length = Field(u16)


class Parse(Element):
    """IPv4, and the rest."""

    inp = In(pkt=packet)
    ipv4 = Out(packet)
    other = Out(packet)
    state = Request
    fires = "one"
    body = """
        struct nf_eth eth;
        struct nf_ipv4 ip;
        if (!nf_extract(pkt, &eth) || eth.type != nf_htons(NF_ETH_IPV4) || !nf_extract(pkt, &ip)) {
            other(pkt);
            return;
        }
        state->source = ip.src;
        state->length = nf_ntohs(ip.length);
        ipv4(pkt);
    """


class Fork(Element):
    """Two values of the packet, and the packet."""

    inp = In(pkt=packet)
    source = Out(be32)
    size = Out(u32)
    out = Out(packet)
    state = Request
    fires = "all"
    body = """
        source(state->source);
        size(state->length);
        nf_reset(pkt);
        out(pkt);
    """


class Frame(Element):
    """Bytes on the wire: the Ethernet header, no less than the smallest frame, and the check
    sum."""

    inp = In(length=u32)
    out = Out(u32)
    body = "out((length < 46 ? 46 : length) + 18);"


class Make(Element):
    """A report, once both are there."""

    source_in = In(source=be32)
    size_in = In(size=u32)
    out = Out(Report)
    body = "struct report report = {source, size};\nout(report);"


class Store(Element):
    """Sums by source."""

    inp = In(report=Report)
    tables = (sums,)
    body = """
        nf_add(&sums, report.source, packets, 1);
        nf_add(&sums, report.source, bytes, report.size);
    """


def program() -> Program:
    """The whole program."""
    network, clock = FromNet(), CallableSegment(sends=Tick, name="clock")
    parse, fork, make = Parse(), Fork(), Make()
    several = Batcher("reports", Report, 8, deadline=100_000)
    network >> parse
    parse.other >> Drop("not IPv4")
    parse.ipv4 >> fork
    fork.source >> make.source_in
    fork.size >> Frame() >> make.size_in
    fork.out >> Reply()
    (
        make
        >> several
        >> Queue("up", side="host", entries=512, lossy=True)
        >> Debatcher(several)
        >> Store()
    )
    clock.sent >> several.tick
    return Program("reports", network, clock, ports=1)


if __name__ == "__main__":
    program().main()
