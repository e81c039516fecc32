"""Hosts inside and outside, with idle times, rules and zones, for firewall; writes traffic.pcap
(from inside), traffic.1.pcap (from outside) and tables.toml.
"""

import pathlib
import random
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent))
from packets import (  # noqa: E402
    ACK,
    PSH,
    SYN,
    Traffic,
    change,
    ethernet,
    icmp,
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

rng = random.Random(4)
traffic = Traffic(__file__)
INSIDE, OUTSIDE = 0, 1
TCP, UDP = 6, 17
IDLE_NS = {TCP: 300_000_000_000, UDP: 30_000_000_000}  # as in the program

# Zone 1 is the office, zone 2 a part of it, zone 3 one host of that; who is in none may see the web
# server only.
ZONES = {"198.51.100.0/24": 1, "198.51.100.128/25": 2, "198.51.100.200/32": 3}
RULES = {
    (0, 443, TCP): 1,
    (1, 22, TCP): 1,
    (1, 53, UDP): 1,
    (2, 22, TCP): 1,
    (3, 22, TCP): 0,
    (3, 53, UDP): 1,
}
traffic.tables(
    {
        "zones": [(prefix, {"id": zone}) for prefix, zone in ZONES.items()],
        "rules": [
            ({"zone": zone, "port": port, "protocol": protocol}, {"allow": allow})
            for (zone, port, protocol), allow in RULES.items()
        ],
    }
)


def zone(address):
    """The longest of the prefixes an address is in, written out for just these."""
    if not address.startswith("198.51.100."):
        return 0
    last = int(address.rsplit(".", 1)[1])
    return 3 if last == 200 else 2 if last >= 128 else 1


# When each session last saw a packet; inside endpoint first.
sessions = {}


def send(
    side, inside, outside, protocol, flags=PSH | ACK, after_ns=50_000, payload=b"data", **header
):
    """Adds one packet of a session between two endpoints (address, port)."""
    source, target = (inside, outside) if side == INSIDE else (outside, inside)
    ends = (source[0], target[0])
    ports = (source[1], target[1])
    body = (
        tcp(*ends, *ports, flags, 1, 1, payload) if protocol == TCP else udp(*ends, *ports, payload)
    )
    frame = pad(
        ethernet(
            "02:00:00:00:00:01",
            f"02:00:00:00:01:0{side}",
            0x0800,
            ipv4(*ends, protocol, body, **header),
        )
    )
    now = traffic.now + after_ns
    key = (inside, outside, protocol)
    known = key in sessions and now - sessions[key] <= IDLE_NS[protocol]
    if side == OUTSIDE and not known and RULES.get((zone(outside[0]), inside[1], protocol)) != 1:
        traffic.add(frame, "drop not allowed from outside", side, after_ns)
        return
    sessions[key] = now
    traffic.add(frame, sent(1 - side, frame), side, after_ns)


# Sessions from inside, with answers.
threads = []
for i in range(250):
    inside = (f"10.0.0.{rng.randrange(1, 60)}", 20000 + i)
    outside = (f"203.0.113.{rng.randrange(1, 250)}", rng.choice([53, 80, 443]))
    protocol = rng.choice([TCP, UDP])
    thread = [(INSIDE, inside, outside, protocol, SYN)]
    for _ in range(rng.randrange(1, 5)):
        thread += [
            (OUTSIDE, inside, outside, protocol, ACK),
            (INSIDE, inside, outside, protocol, PSH | ACK),
        ]
    threads.append(thread)
# Attempts from outside: by zone and service, allowed or not; who is allowed goes on and is
# answered.
for i in range(240):
    address = rng.choice(["203.0.113.9", "198.51.100.7", "198.51.100.130", "198.51.100.200"])
    service, protocol = rng.choice([(443, TCP), (22, TCP), (53, UDP), (443, UDP), (8080, TCP)])
    inside, outside = ("10.0.0.5", service), (address, 30000 + i)
    thread = [(OUTSIDE, inside, outside, protocol, SYN)]
    if RULES.get((zone(address), service, protocol)) == 1:
        thread += [
            (INSIDE, inside, outside, protocol, SYN | ACK),
            (OUTSIDE, inside, outside, protocol, ACK),
        ]
    threads.append(thread)
for side, inside, outside, protocol, flags in interleave(rng, threads):
    options = b"\x01" * rng.choice([0, 0, 0, 4, 40])
    send(
        side,
        inside,
        outside,
        protocol,
        flags,
        options=options,
        payload=rng.randbytes(rng.randrange(1, 60)),
    )

# Idle times, to the nanosecond: an answer in time, one just too late, and the session begun anew.
for number, protocol in enumerate([TCP, UDP]):
    inside, outside = ("10.0.0.99", 5000 + number), ("203.0.113.99", 9999)
    for after_ns in [1_000, IDLE_NS[protocol], IDLE_NS[protocol] + 1]:
        send(INSIDE, inside, outside, protocol)
        send(OUTSIDE, inside, outside, protocol, after_ns=after_ns)
    send(INSIDE, inside, outside, protocol)
    send(OUTSIDE, inside, outside, protocol)

# What it does not let through, from either side.
for side in [INSIDE, OUTSIDE] * 8:
    a, b = ("10.0.0.1", "203.0.113.1") if side == INSIDE else ("203.0.113.1", "10.0.0.1")
    datagram = udp(a, b, 5, 6, b"hello")
    good = pad(
        ethernet("02:00:00:00:00:01", "02:00:00:00:01:01", 0x0800, ipv4(a, b, UDP, datagram))
    )
    for frame, fate in [
        (change(good, 14, b"\x65"), "drop bad IPv4 header"),
        (change(good, 14, b"\x44"), "drop bad IPv4 header"),
        (change(good, 20, b"\x20\x00"), "drop fragment"),
        (change(good, 20, b"\x00\x01"), "drop fragment"),
        (change(good, 14, b"\x4f")[:60], "drop truncated"),
        (
            ethernet(
                "02:00:00:00:00:01", "02:00:00:00:01:01", 0x0800, ipv4(a, b, 1, icmp(8, 0, 1, 1))
            ),
            "drop neither TCP nor UDP",
        ),
        (ethernet("ff:ff:ff:ff:ff:ff", "02:00:00:00:01:01", 0x0806, bytes(28)), "stack"),
        (
            ethernet(
                "02:00:00:00:00:01",
                "02:00:00:00:01:01",
                0x86DD,
                ipv6("2001:db8::1", "2001:db8::2", 17, bytes(8)),
            ),
            "stack",
        ),
        (
            ethernet("02:00:00:00:00:01", "02:00:00:00:01:01", 0x8100, vlan(5, 0x0800, good[14:])),
            "stack",
        ),
    ]:
        traffic.add(frame, fate, side)
    for frame in malformed(good[:38], 24):
        traffic.add(
            frame, "drop shorter than an IPv4 header" if len(frame) < 34 else "drop truncated", side
        )
traffic.write()
