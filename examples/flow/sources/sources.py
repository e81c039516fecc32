"""Counts packets and bytes of every source, in elements.

python3 sources.py verify --pcap ../../flow_stats/traffic.pcap --target dpdk
"""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "python"))
from nicforge.flow import (
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
    be32,
    packet,
    u8,
    u16,
    u32,
    u64,
)  # noqa: E402

Seen = Struct("seen", packets=u64, bytes=u64)
sources = Table("sources", "hash", be32, Seen, 4096)
protocols = Table("protocols", "array", u32, u64, 256)


class Parse(Element):
    """Reads Ethernet and IPv4."""

    inp = In(pkt=packet)
    ipv4 = Out(packet, be32, u16)
    protocol = Out(u8)
    other = Out(packet)
    body = """
        struct nf_eth eth;
        struct nf_ipv4 ip;
        if (!nf_extract(pkt, &eth) || eth.type != nf_htons(NF_ETH_IPV4) || !nf_extract(pkt, &ip)) {
            other(pkt);
            return;
        }
        protocol(ip.protocol);
        ipv4(pkt, ip.src, nf_ntohs(ip.length));
    """


class Count(Element):
    """Counts by protocol."""

    inp = In(number=u8)
    tables = (protocols,)
    body = "nf_add_value(&protocols, number, 1);"


class Account(Element):
    """Counts by source; every FAIR-th packet of a source goes out by port 1, the others by port
    0."""

    inp = In(pkt=packet, source=be32, length=u16)
    out = Out(packet, u32)
    tables = (sources,)
    body = """
        struct seen seen;
        nf_lookup(&sources, source, &seen);
        seen.packets = seen.packets + 1;
        seen.bytes = seen.bytes + length;
        nf_update(&sources, source, seen);
        nf_reset(pkt);
        out(pkt, seen.packets % FAIR == 0);
    """


network, parse, account = FromNet(), Parse(), Account(FAIR=4)
network >> parse
parse.ipv4 >> Queue("work") >> account >> ToNet()
parse.protocol >> Queue("protocol_work") >> Count()
parse.other >> Drop("not IPv4")
program = Program("sources", network)

if __name__ == "__main__":
    program.main()
