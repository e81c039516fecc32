"""Hosts inside that talk through one address outside, for nat; writes traffic.pcap (from inside),
traffic.1.pcap (from outside) and tables.toml.
"""

import ipaddress
import pathlib
import random
import struct
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent))
from packets import (
    ACK,
    PSH,
    SYN,
    Traffic,
    change,
    ethernet,
    interleave,
    ipv4,
    malformed,
    nf_hash,
    pad,
    sent,
    tcp,
    udp,
)  # noqa: E402

rng = random.Random(5)
traffic = Traffic(__file__)
INSIDE, OUTSIDE = 0, 1
TCP, UDP = 6, 17
ADDRESS, INSIDE_MAC, OUTSIDE_MAC, GATEWAY = (
    "192.0.2.1",
    "02:00:00:00:00:01",
    "02:00:00:00:00:02",
    "02:00:00:00:00:fe",
)
PEER_PORT = 443

# What the translator should know: (address, port, protocol) inside to the port outside, and back.
mappings, reverse = {}, {}


def first_port(address, port, protocol):
    """Where the search for a free port begins, counted from 1024."""
    return nf_hash(1, ipaddress.ip_address(address).packed + struct.pack("!HBx", port, protocol))


def outside_port(address, port, protocol):
    """The port outside of an endpoint inside, as it is or as it should be made; None if there is
    none."""
    inside = (address, port, protocol)
    if inside not in mappings:
        start = first_port(*inside)
        free = (1024 + (start + i) % 2**32 % 64512 for i in range(8))
        found = next(
            (candidate for candidate in free if (candidate, protocol) not in reverse), None
        )
        if found is None:
            return None
        mappings[inside], reverse[found, protocol] = found, inside
    return mappings[inside]


def mac_of(address):
    return f"02:00:00:00:01:{int(address.rsplit('.', 1)[1]):02x}"


def packet(source, target, protocol, payload, macs, ttl, with_checksum=True, flags=PSH | ACK):
    """A frame between two endpoints (address, port); macs are destination and source."""
    ends, ports = (source[0], target[0]), (source[1], target[1])
    if protocol == TCP:
        body = tcp(*ends, *ports, flags, 1000, 2000, payload)
    else:
        body = udp(*ends, *ports, payload, with_checksum)
    return pad(ethernet(*macs, 0x0800, ipv4(*ends, protocol, body, ttl=ttl, identification=7)))


def outward(inside, peer, protocol, payload=b"question", ttl=64, **more):
    """A host inside sends."""
    frame = packet(inside, peer, protocol, payload, (INSIDE_MAC, mac_of(inside[0])), ttl, **more)
    port = outside_port(*inside, protocol)
    if port is None:
        traffic.add(frame, "drop no free port")
        return
    translated = packet(
        (ADDRESS, port), peer, protocol, payload, (GATEWAY, OUTSIDE_MAC), ttl - 1, **more
    )
    traffic.add(frame, sent(OUTSIDE, translated))


def inward(peer, port, protocol, payload=b"answer", ttl=64, **more):
    """Somebody outside sends to a port of ours."""
    frame = packet(peer, (ADDRESS, port), protocol, payload, (OUTSIDE_MAC, GATEWAY), ttl, **more)
    if (port, protocol) not in reverse:
        traffic.add(frame, "drop no mapping", OUTSIDE)
        return
    inside = reverse[port, protocol][:2]
    translated = packet(
        peer, inside, protocol, payload, (mac_of(inside[0]), INSIDE_MAC), ttl - 1, **more
    )
    traffic.add(frame, sent(INSIDE, translated), OUTSIDE)


# A server inside that is reached from outside, and eight ports that are taken so that one endpoint
# finds none free.
mappings["10.0.0.80", 80, TCP], reverse[80, TCP] = 80, ("10.0.0.80", 80, TCP)
UNLUCKY = ("10.0.0.200", 7777)
for i in range(8):
    taken = 1024 + (first_port(*UNLUCKY, UDP) + i) % 64512
    mappings["10.0.0.81", 9000 + i, UDP], reverse[taken, UDP] = taken, ("10.0.0.81", 9000 + i, UDP)
config = {
    "address": ADDRESS,
    "inside_mac": INSIDE_MAC,
    "outside_mac": OUTSIDE_MAC,
    "gateway": GATEWAY,
}
traffic.tables(
    {
        "config": [(0, config)],
        "mappings": [
            ({"address": address, "port": port, "protocol": protocol}, {"port": taken})
            for (address, port, protocol), taken in mappings.items()
        ],
        "reverse": [
            (
                {"port": taken, "protocol": protocol},
                {"address": address, "port": port, "mac": mac_of(address)},
            )
            for (taken, protocol), (address, port, _) in reverse.items()
        ],
    }
)

# Conversations; each endpoint inside keeps its port outside whomever it talks to, and anybody may
# answer there.
threads = []
for _ in range(300):
    inside = (f"10.0.0.{rng.randrange(2, 60)}", rng.randrange(1024, 65536))
    protocol = rng.choice([TCP, UDP])
    thread = []
    for _ in range(rng.randrange(1, 5)):
        peer = (f"203.0.113.{rng.randrange(1, 250)}", PEER_PORT)
        thread += [(INSIDE, inside, peer, protocol), (OUTSIDE, inside, peer, protocol)]
    threads.append(thread)
for side, inside, peer, protocol in interleave(rng, threads):
    payload = rng.randbytes(rng.randrange(1, 80))
    more = {"ttl": rng.randrange(2, 256), "with_checksum": rng.randrange(4) > 0}
    if side == INSIDE:
        outward(inside, peer, protocol, payload, **more)
    else:
        inward(peer, outside_port(*inside, protocol), protocol, payload, **more)
for i in range(100):
    inward((f"203.0.113.{i + 1}", 5000), 80, TCP, flags=SYN)
    outward(("10.0.0.80", 80), (f"203.0.113.{i + 1}", 5000), TCP, flags=SYN | ACK)
    outward(UNLUCKY, ("203.0.113.7", PEER_PORT), UDP)
    inward(("203.0.113.7", PEER_PORT), 80, UDP)
# Payloads with which the translated checksum comes out as zero, which UDP writes as 0xffff.
for i in range(20):
    inside, peer = ("10.0.0.90", 3000 + i), ("203.0.113.9", PEER_PORT)
    bare = udp(ADDRESS, peer[0], outside_port(*inside, UDP), peer[1], b"\0\0")
    outward(inside, peer, UDP, bare[6:8])

# What is not translated.
a, b = "10.0.0.1", "203.0.113.1"
for i in range(12):
    good = packet((a, 5), (b, 6), UDP, b"hello", (INSIDE_MAC, mac_of(a)), 64)
    back = packet((b, 6), (ADDRESS, 5), UDP, b"hello", (OUTSIDE_MAC, GATEWAY), 64)
    for side, frame in [(INSIDE, good), (OUTSIDE, back)]:
        traffic.add(change(frame, 14, b"\x46"), "drop options or fragment", side)
        traffic.add(change(frame, 20, b"\x20\x00"), "drop options or fragment", side)
        traffic.add(change(frame, 20, b"\x00\xb9"), "drop options or fragment", side)
        traffic.add(change(frame, 22, bytes([i % 2])), "drop time to live exceeded", side)
        traffic.add(change(frame, 12, b"\x08\x06"), "stack", side)
        traffic.add(change(frame, 12, b"\x86\xdd"), "stack", side)
        traffic.add(change(frame, 23, b"\x01"), "drop neither TCP nor UDP", side)
        traffic.add(change(frame, 23, b"\x2f"), "drop neither TCP nor UDP", side)
    traffic.add(change(back, 33, b"\x63"), "drop not for the address outside", OUTSIDE)
for frame in malformed(good[:42], 28):
    traffic.add(frame, "drop shorter than an IPv4 header" if len(frame) < 34 else "drop truncated")
for frame in malformed(change(good, 23, b"\x06")[:54], 40):
    traffic.add(frame, "drop shorter than an IPv4 header" if len(frame) < 34 else "drop truncated")
traffic.write()
