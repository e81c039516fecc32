"""Clients that open and close TCP connections through conn_limiter, some too many; writes
traffic.pcap (from the clients) and traffic.1.pcap (from the servers).
"""

import pathlib
import random
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent))
from packets import (  # noqa: E402
    ACK,
    FIN,
    PSH,
    RST,
    SYN,
    Traffic,
    change,
    ethernet,
    interleave,
    ipv4,
    ipv6,
    malformed,
    pad,
    sent,
    tcp,
    udp,
    vlan,
)

rng = random.Random(3)
traffic = Traffic(__file__)
SERVER, PORT = "192.0.2.10", 80
CLIENTS, SERVERS = 0, 1
LIMIT, SOURCES = 8, 1024  # as in the program

# What the limiter should know: open connections, and how many each source has (zero too).
connections, sources = set(), {}


def fate(frame, side, client, sport, flags):
    """What should become of a frame with such a segment, and what the limiter should remember of
    it."""
    key, out = (client, sport), sent(1 - side, frame)
    if side == CLIENTS and flags & (SYN | ACK) == SYN and key not in connections:
        if sources.get(client, 0) >= LIMIT:
            return "drop too many open connections"
        if client not in sources and len(sources) == SOURCES:
            return "drop too many sources"
        sources[client] = sources.get(client, 0) + 1
        connections.add(key)
    elif flags & (FIN | RST) and key in connections:
        sources[client] -= 1
        connections.remove(key)
    return out


def segment(side, client, sport, flags, payload=b"", options=b"", fragment=0):
    ends = (client, SERVER) if side == CLIENTS else (SERVER, client)
    ports = (sport, PORT) if side == CLIENTS else (PORT, sport)
    body = tcp(*ends, *ports, flags, rng.randrange(1 << 32), rng.randrange(1 << 32), payload)
    return pad(
        ethernet(
            "02:00:00:00:00:01",
            "02:00:00:00:01:01",
            0x0800,
            ipv4(*ends, 6, body, options=options, fragment=fragment),
        )
    )


def connection(client, sport, end):
    """(side, client, port, flags) of each segment; `end` says who closes: a side, with FIN or RST,
    or nobody."""
    out = [(CLIENTS, client, sport, SYN)]
    if rng.randrange(8) == 0:
        out.append((CLIENTS, client, sport, SYN))  # sent again: the same connection
    out += [(SERVERS, client, sport, SYN | ACK), (CLIENTS, client, sport, ACK)]
    for _ in range(rng.randrange(4)):
        out += [(CLIENTS, client, sport, PSH | ACK), (SERVERS, client, sport, ACK)]
    if end is not None:
        side, flags = end
        out.append((side, client, sport, flags))
        if flags & FIN:
            out += [(1 - side, client, sport, FIN | ACK), (side, client, sport, ACK)]
    return out


ENDS = [(CLIENTS, FIN | ACK), (SERVERS, FIN | ACK), (CLIENTS, RST), (SERVERS, RST | ACK), None]
threads = [
    connection(f"10.0.0.{rng.randrange(1, 12)}", 20000 + i, ENDS[i % 5 if i % 3 else 0])
    for i in range(200)
]
# Refused at first, then again when others have closed.
threads += [connection("10.0.9.9", 30000 + i % 20, ENDS[i % 4]) for i in range(60)]
for i, (side, client, sport, flags) in enumerate(interleave(rng, threads)):
    payload = rng.randbytes(rng.randrange(1, 100)) if flags & PSH else b""
    options = b"\x01" * 4 if i % 50 == 0 else b""
    frame = segment(side, client, sport, flags, payload, options)
    traffic.add(frame, fate(frame, side, client, sport, flags), side)

# More sources than there is room for.
for i in range(1100):
    client = f"10.1.{i // 250}.{i % 250 + 1}"
    frame = segment(CLIENTS, client, 1000, SYN)
    traffic.add(frame, fate(frame, CLIENTS, client, 1000, SYN))

# What is no TCP segment passes, in both directions.
for side in [CLIENTS, SERVERS] * 8:
    for frame in [
        ethernet("ff:ff:ff:ff:ff:ff", "02:00:00:00:01:01", 0x0806, bytes(28)),
        ethernet(
            "02:00:00:00:00:01",
            "02:00:00:00:01:01",
            0x86DD,
            ipv6("2001:db8::1", "2001:db8::2", 17, bytes(8)),
        ),
        ethernet(
            "02:00:00:00:00:01",
            "02:00:00:00:01:01",
            0x8100,
            vlan(5, 0x0800, segment(side, "10.0.0.1", 1, SYN)[14:]),
        ),
        ethernet(
            "02:00:00:00:00:01",
            "02:00:00:00:01:01",
            0x0800,
            ipv4("10.0.0.1", SERVER, 17, udp("10.0.0.1", SERVER, 1, 2, b"x")),
        ),
        segment(side, "10.0.0.1", 5, SYN, fragment=0x0020),
    ]:
        traffic.add(frame, sent(1 - side, frame), side)
    # A header length that cannot be, and options that are not all there.
    traffic.add(
        change(segment(side, "10.0.0.1", 5, SYN), 14, b"\x44"), "drop no whole TCP header", side
    )
    traffic.add(
        change(segment(side, "10.0.0.1", 5, SYN), 14, b"\x4f"), "drop no whole TCP header", side
    )
for frame in malformed(segment(CLIENTS, "10.0.0.1", 5, ACK)[:54], 40):
    traffic.add(
        frame, "drop shorter than an IPv4 header" if len(frame) < 34 else "drop no whole TCP header"
    )
traffic.write()
