"""A network sequencer: packets to groups get numbers in one order (as for ordered multicast: Eris,
SOSP'17; NOPaxos, OSDI'16).

    python3 sequencer.py verify --pcap traffic.pcap --target xdp

The payload (UDP, port 5357) begins with a bitmap of groups and room for eight bytes. A packet gets
the next number of the whole order there, and the counters of all its groups go up together: who
sees a packet of two groups sees the same order in both. In C with threads that takes a lock for
every group, in the order of their numbers; here a handler's accesses happen together by definition,
so the locks are whatever the plan needs (one replica, or locks where it has several).
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
    Reply,
    Struct,
    Table,
    ToSystem,
    be32,
    packet,
    u32,
    u64,
)

PORT, GROUPS = 5357, 32
Request = Struct("request", groups=be32, high=be32, low=be32)
order = Table("order", "array", u32, u64, 1)
groups = Table("groups", "array", u32, u64, GROUPS)


class Parse(Element):
    """Picks requests out."""

    inp = In(pkt=packet)
    request = Out(packet, u32)
    none = Out(packet)
    other = Out(packet)
    structs = (Request,)
    body = """
        struct nf_eth eth;
        struct nf_ipv4 ip;
        struct nf_udp udp;
        struct request asked;
        if (!nf_extract(pkt, &eth) || eth.type != nf_htons(NF_ETH_IPV4) ||
            !nf_extract(pkt, &ip) || ip.ihl != 5 ||
            ip.protocol != NF_IP_UDP || !nf_extract(pkt, &udp) || udp.dport != nf_htons(PORT) ||
                !nf_extract(pkt, &asked)) {
            other(pkt);
            return;
        }
        if (asked.groups == 0) {
            none(pkt);
            return;
        }
        nf_reset(pkt);
        request(pkt, nf_ntohl(asked.groups));
    """


class Sequence(Element):
    """The next number, and one more for every group."""

    inp = In(pkt=packet, members=u32)
    out = Out(packet, u64)
    tables = (order, groups)
    body = """
        uint64_t number;
        nf_lookup(&order, 0, &number);
        nf_update(&order, 0, number + 1);
        for (uint32_t group = 0; group < GROUPS; group++) {
            if (members >> group & 1)
                nf_add_value(&groups, group, 1);
        }
        out(pkt, number);
    """


class Write(Element):
    """Puts the number into the packet, on its way back."""

    inp = In(pkt=packet, number=u64)
    out = Out(packet)
    gone = Out(packet)
    structs = (Request,)
    body = """
        struct nf_eth eth;
        struct nf_ipv4 ip;
        struct nf_udp udp;
        struct request asked;
        if (!nf_extract(pkt, &eth) || !nf_extract(pkt, &ip) || !nf_extract(pkt, &udp) ||
            !nf_extract(pkt, &asked)) {
            gone(pkt);
            return;
        }
        asked.high = nf_htonl(number >> 32);
        asked.low = nf_htonl(number);
        udp.csum = 0;
        nf_mac mac = eth.dst;
        eth.dst = eth.src;
        eth.src = mac;
        nf_be32 address = ip.dst;
        ip.dst = ip.src;
        ip.src = address;
        nf_be16 port = udp.dport;
        udp.dport = udp.sport;
        udp.sport = port;
        nf_emit(pkt, &eth);
        nf_emit(pkt, &ip);
        nf_emit(pkt, &udp);
        nf_emit(pkt, &asked);
        out(pkt);
    """


network, parse, write = FromNet(), Parse(PORT=PORT), Write()
network >> parse
parse.other >> ToSystem()
parse.none >> Drop("no groups")
parse.request >> Queue("requests") >> Sequence(GROUPS=GROUPS) >> write
write.out >> Reply()
write.gone >> Drop("too short")
program = Program("sequencer", network, ports=1)

if __name__ == "__main__":
    program.main()
