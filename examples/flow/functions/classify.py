"""Flow classification: packets of heavy flows are marked, by a count-min sketch keyed by the
5-tuple.

    python3 classify.py verify --pcap traffic.pcap --target dpdk

Four rows of counters; a flow's estimate is the least of its four. Updates are conservative (Estan
and Varghese, SIGCOMM'02): no counter is raised above the new estimate, so estimates are never below
the truth and less above it than in a plain sketch (Cormode and Muthukrishnan, 2005). Heavy packets
get the DSCP of MARK and the header's checksum is mended (RFC 1624).
"""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "python"))
from nicforge.flow import (  # noqa: E402
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
    ToSystem,
    be16,
    be32,
    packet,
    u8,
    u32,
    u64,
)

COLUMNS, HEAVY_BYTES, MARK = 1024, 3_000, 40 << 2
Flow = Struct("flow", src=be32, dst=be32, sport=be16, dport=be16, protocol=u8, zero=u8[3])
rows = [Table(f"row{at}", "array", u32, u64, COLUMNS) for at in range(4)]


class Parse(Element):
    """Reads the 5-tuple of TCP and UDP, and the bytes of the packet."""

    inp = In(pkt=packet)
    flow = Out(packet, Flow, u32)
    other = Out(packet)
    body = """
        struct nf_eth eth;
        struct nf_ipv4 ip;
        struct nf_udp ports;
        if (!nf_extract(pkt, &eth) || eth.type != nf_htons(NF_ETH_IPV4) ||
            !nf_extract(pkt, &ip) || ip.ihl != 5) {
            other(pkt);
            return;
        }
        if ((ip.protocol != NF_IP_TCP && ip.protocol != NF_IP_UDP) || !nf_extract(pkt, &ports)) {
            other(pkt);
            return;
        }
        struct flow key = {ip.src, ip.dst, ports.sport, ports.dport, ip.protocol};
        nf_reset(pkt);
        flow(pkt, key, nf_ntohs(ip.length));
    """


class Sketch(Element):
    """Adds the packet's bytes; `light` and `heavy` by the flow's estimate."""

    inp = In(pkt=packet, flow=Flow, bytes=u32)
    light = Out(packet)
    heavy = Out(packet)
    tables = tuple(rows)
    body = """
        uint32_t c0 = nf_hash(1, flow) % COLUMNS, c1 = nf_hash(2, flow) % COLUMNS;
        uint32_t c2 = nf_hash(3, flow) % COLUMNS, c3 = nf_hash(4, flow) % COLUMNS;
        uint64_t n0, n1, n2, n3;
        nf_lookup(&row0, c0, &n0);
        nf_lookup(&row1, c1, &n1);
        nf_lookup(&row2, c2, &n2);
        nf_lookup(&row3, c3, &n3);
        uint64_t least = n0 < n1 ? n0 : n1;
        least = n2 < least ? n2 : least;
        least = n3 < least ? n3 : least;
        least = least + bytes;
        if (n0 < least)
            nf_update(&row0, c0, least);
        if (n1 < least)
            nf_update(&row1, c1, least);
        if (n2 < least)
            nf_update(&row2, c2, least);
        if (n3 < least)
            nf_update(&row3, c3, least);
        if (least > HEAVY_BYTES)
            heavy(pkt);
        else
            light(pkt);
    """


class Mark(Element):
    """Sets the type of service."""

    inp = In(pkt=packet)
    out = Out(packet)
    gone = Out(packet)
    body = """
        struct nf_eth eth;
        struct nf_ipv4 ip;
        if (!nf_extract(pkt, &eth) || !nf_extract(pkt, &ip)) {
            gone(pkt);
            return;
        }
        ip.csum = nf_csum_replace16(ip.csum, nf_htons(0x4500 | ip.tos), nf_htons(0x4500 | MARK));
        ip.tos = MARK;
        nf_emit(pkt, &eth);
        nf_emit(pkt, &ip);
        out(pkt);
    """


class Forward(Element):
    """To the other port."""

    inp = In(pkt=packet)
    out = Out(packet, u32)
    body = "out(pkt, 1 - nf_port(pkt));"


network, parse = FromNet(), Parse()
sketch, mark, forward = Sketch(COLUMNS=COLUMNS, HEAVY_BYTES=HEAVY_BYTES), Mark(MARK=MARK), Forward()
network >> parse
parse.flow >> Queue("flows") >> sketch
parse.other >> ToSystem()
sketch.light >> forward
sketch.heavy >> mark
mark.out >> forward
mark.gone >> Drop("too short")
forward >> ToNet()
program = Program("classify", network)

if __name__ == "__main__":
    program.main()
