"""Queries for names that are in the table and others, for dns_cache; writes traffic.pcap and
tables.toml."""

import ipaddress
import pathlib
import random
import struct
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent))
from packets import ACK, Traffic, change, ethernet, ipv4, ipv6, malformed, pad, sent, tcp, udp, vlan  # noqa: E402

rng = random.Random(14)
traffic = Traffic(__file__)
US, OUR_MAC, CLIENT_MAC = "192.0.2.53", "02:00:00:00:00:01", "02:00:00:00:01:01"
NAME_BYTES = 48  # as in the program
A, NS, AAAA, OPT, IN, CH = 1, 2, 28, 41, 1, 3


def wire(name):
    """A name as it is on the wire (RFC 1035, 3.1)."""
    labels = [label.encode() for label in name.split(".") if label]
    return b"".join(bytes([len(label)]) + label for label in labels) + b"\0"


# The longest is just as long as the program takes, one more is not.
LONGEST, TOO_LONG = "a" * 20 + "." + "b" * 20 + ".exam", "a" * 20 + "." + "b" * 20 + ".examp"
assert len(wire(LONGEST)) == NAME_BYTES
NAMES = [
    "example.com",
    "www.example.com",
    "mail.example.org",
    "a.b.c.d.e.f.g.h",
    "x",
    "xn--bcher-kva.example",
    LONGEST,
]
NAMES += [f"host{i}.example.net" for i in range(60)]
RECORDS = {name: (f"198.51.100.{i + 1}", 60 * (i + 1)) for i, name in enumerate(NAMES)}
traffic.tables(
    {
        "records": [
            ({"b": wire(name).ljust(NAME_BYTES, b"\0").hex()}, {"address": address, "ttl": ttl})
            for name, (address, ttl) in RECORDS.items()
        ]
    }
)


def query(name, kind=A, cls=IN, number=0, flags=0x0100, counts=(1, 0, 0, 0), additional=b""):
    """A DNS message with one question (RFC 1035, 4.1); `name` as text or as bytes."""
    name = name if isinstance(name, bytes) else wire(name)
    return (
        struct.pack("!HHHHHH", number, flags, *counts)
        + name
        + struct.pack("!HH", kind, cls)
        + additional
    )


def packet(content, sport=5353, dport=53, client="10.0.0.1", checksum=True, **header):
    datagram = udp(client, US, sport, dport, content, checksum)
    return pad(ethernet(OUR_MAC, CLIENT_MAC, 0x0800, ipv4(client, US, 17, datagram, **header)))


def ask(name, spelled=None, flags=0x0100, edns=False, **header):
    """Adds a query that should be answered, with the name spelled as it likes."""
    client, sport, number = (
        f"10.0.{rng.randrange(4)}.{rng.randrange(1, 255)}",
        rng.randrange(1024, 65536),
        rng.randrange(65536),
    )
    counts, additional = (
        ((1, 0, 0, 1), b"\0" + struct.pack("!HHIH", OPT, 1232, 0, 0))
        if edns
        else ((1, 0, 0, 0), b"")
    )
    content = query(
        spelled or name, number=number, flags=flags, counts=counts, additional=additional
    )
    identification = rng.randrange(65536)
    frame = packet(
        content,
        sport,
        client=client,
        identification=identification,
        checksum=rng.randrange(4) > 0,
        **header,
    )
    address, ttl = RECORDS[name]
    record = struct.pack("!HHHIH", 0xC00C, A, IN, ttl, 4) + ipaddress.ip_address(address).packed
    # Response, recursion available; recursion desired and checking disabled as they were.
    reply = query(
        spelled or name,
        number=number,
        flags=0x8080 | flags & 0x0110,
        counts=(1, 1, 0, 0),
        additional=record,
    )
    datagram = udp(US, client, 53, sport, reply, with_checksum=False)
    answer = ethernet(
        CLIENT_MAC, OUR_MAC, 0x0800, ipv4(US, client, 17, datagram, identification=identification)
    )
    traffic.add(frame, sent(0, answer))


def mixed_case(name):
    return "".join(rng.choice([c.upper(), c.lower()]) for c in name)


for i in range(1600):
    name = rng.choice(NAMES) if i % 2 else NAMES[min(int(rng.expovariate(0.5)), len(NAMES) - 1)]
    spelled = mixed_case(name) if rng.randrange(3) == 0 else None
    ask(
        name,
        spelled,
        rng.choice([0x0100, 0x0100, 0x0000, 0x0110, 0x0120]),
        rng.randrange(3) == 0,
        ttl=rng.randrange(1, 256),
    )

for i in range(20):
    known = rng.choice(NAMES)
    good = packet(query(known))
    for frame in [
        packet(query(f"unknown{i}.example.com")),
        packet(query(known + ".x")),
        packet(query(TOO_LONG)),
        packet(query("")),
        packet(query(known, AAAA)),
        packet(query(known, NS)),
        packet(query(known, cls=CH)),
        packet(query(known, flags=0x8180)),
        packet(query(known, flags=0x2800)),
        packet(query(known, counts=(2, 0, 0, 0), additional=wire("x") + b"\0\1\0\1")),
        packet(query(known, counts=(0, 0, 0, 0))),
        packet(query(known, counts=(1, 1, 0, 0))),
        packet(query(wire(known)[:-1] + b"\xc0\x0c")),
        packet(query(b"\x3f" * 60)),
        packet(query(known), dport=5353),
        packet(query(known), options=b"\1" * 4),
        change(good, 20, b"\x20\x00"),
        change(good, 20, b"\x00\x02"),
        pad(
            ethernet(
                OUR_MAC,
                CLIENT_MAC,
                0x0800,
                ipv4("10.0.0.1", US, 6, tcp("10.0.0.1", US, 53, 53, ACK)),
            )
        ),
        ethernet("ff:ff:ff:ff:ff:ff", CLIENT_MAC, 0x0806, bytes(28)),
        ethernet(
            OUR_MAC,
            CLIENT_MAC,
            0x86DD,
            ipv6(
                "2001:db8::1",
                "2001:db8::53",
                17,
                udp("2001:db8::1", "2001:db8::53", 5353, 53, query(known)),
            ),
        ),
        ethernet(OUR_MAC, CLIENT_MAC, 0x8100, vlan(5, 0x0800, good[14:])),
    ]:
        traffic.add(frame, "stack")
whole = ethernet(OUR_MAC, CLIENT_MAC, 0x0800, good[14 : 14 + 20 + 8 + len(query(known))])
for frame in malformed(whole, len(whole)):
    traffic.add(frame, "stack")
traffic.write()
