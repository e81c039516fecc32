"""Elements for headers: what is in a packet, and answers. Each goes on reading where the element
before it stopped."""

from __future__ import annotations

from .element import Element, In, Out
from .errors import caller
from .types import Struct, Table, Type, be16, be32, check_name, packet, u8, u32, u64


class Ethernet(Element):
    """Reads the Ethernet header and divides by EtherType (IEEE 802.3; VLAN tags are `other`)."""

    inp = In(pkt=packet)
    ipv4 = Out(packet)
    ipv6 = Out(packet)
    arp = Out(packet)
    other = Out(packet)
    body = """
        struct nf_eth eth;
        if (!nf_extract(pkt, &eth))
            other(pkt);
        else if (eth.type == nf_htons(NF_ETH_IPV4))
            ipv4(pkt);
        else if (eth.type == nf_htons(NF_ETH_IPV6))
            ipv6(pkt);
        else if (eth.type == nf_htons(NF_ETH_ARP))
            arp(pkt);
        else
            other(pkt);
    """


class Ipv4(Element):
    """Reads an IPv4 header: source, destination, protocol (RFC 791). Options and fragments are
    `other`."""

    inp = In(pkt=packet)
    out = Out(packet, be32, be32, u8)
    other = Out(packet)
    body = """
        struct nf_ipv4 ip;
        if (nf_extract(pkt, &ip) && ip.version == 4 && ip.ihl == 5 &&
            (ip.frag & nf_htons(NF_IPV4_MORE | NF_IPV4_OFFSET)) == 0)
            out(pkt, ip.src, ip.dst, ip.protocol);
        else
            other(pkt);
    """


class Udp(Element):
    """Reads a UDP header behind IPv4: addresses, source and destination port (RFC 768). Other
    protocols are `other`."""

    inp = In(pkt=packet, source=be32, destination=be32, protocol=u8)
    out = Out(packet, be32, be32, be16, be16)
    other = Out(packet)
    body = """
        struct nf_udp udp;
        if (protocol == NF_IP_UDP && nf_extract(pkt, &udp))
            out(pkt, source, destination, udp.sport, udp.dport);
        else
            other(pkt);
    """


class Hash(Element):
    """A value with its hash: `Hash(be32)` (a mixed CRC-32C; another SEED is an independent one)."""

    def __init__(self, of: Type, name: str | None = None, SEED: int = 0):
        self.inp = In(value=of)
        super().__init__(name, SEED=SEED)
        self.add_output("out", of, u32)
        self.body = "out(value, nf_hash(SEED, value));"


class Count(Element):
    """Counts packets and their bytes in a table of its own, `Count("received")`, and passes them
    on."""

    inp = In(pkt=packet)
    out = Out(packet)
    body = "nf_add(&TABLE, 0, packets, 1);\nnf_add(&TABLE, 0, bytes, nf_len(pkt));\nout(pkt);"

    def __init__(self, table: str):
        place = caller()
        super().__init__(f"count_{check_name(table, place)}")
        self.tables = (Table(table, "array", u32, counted, 1),)
        self.body = self.body.replace("TABLE", table)


#: What Count counts.
counted = Struct("counted", packets=u64, bytes=u64)


class Echo(Element):
    """Sends a packet back by the port it came in by, with Ethernet and IPv4 addresses exchanged."""

    inp = In(pkt=packet)
    body = """
        struct nf_eth eth;
        struct nf_ipv4 ip;
        nf_reset(pkt);
        if (!nf_extract(pkt, &eth) || eth.type != nf_htons(NF_ETH_IPV4) || !nf_extract(pkt, &ip)) {
            nf_drop(pkt, "echo of what is no IPv4");
            return;
        }
        nf_mac sender = eth.src;
        eth.src = eth.dst;
        eth.dst = sender;
        nf_be32 source = ip.src;
        ip.src = ip.dst;
        ip.dst = source;
        nf_emit(pkt, &eth);
        nf_emit(pkt, &ip);
        nf_send(pkt, nf_port(pkt));
    """
