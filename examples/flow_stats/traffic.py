"""A few heavy and many light flows in both directions, for flow_stats; writes traffic.pcap (port 0)
and traffic.1.pcap."""

import pathlib
import random
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent))
from packets import (
    ACK,
    PSH,
    Traffic,
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
)  # noqa: E402

rng = random.Random(8)
traffic = Traffic(__file__)


def packet(src, dst, protocol, sport=0, dport=0, payload=b"", **header):
    if protocol == 6:
        body = tcp(src, dst, sport, dport, PSH | ACK, 1, 1, payload)
    elif protocol == 17:
        body = udp(src, dst, sport, dport, payload)
    else:
        body = icmp(8, 0, 1, 1, payload)
    return pad(
        ethernet(
            "02:00:00:00:00:02",
            "02:00:00:00:00:01",
            0x0800,
            ipv4(src, dst, protocol, body, **header),
        )
    )


# Twelve flows cross the limit of 64 packets: TCP, UDP, one of options, one of fragments, one of
# pings. Two end at 63 and 64.
heavy = [[(f"10.0.0.{i}", "10.1.0.1", 6, 1000 + i, 80)] * rng.randrange(70, 140) for i in range(7)]
heavy += [
    [(f"10.0.0.{i}", "10.1.0.1", 17, 1000 + i, 53)] * rng.randrange(70, 140) for i in range(2)
]
heavy += [
    [("10.0.1.1", "10.1.0.1", 1)] * 80,
    [("10.0.1.2", "10.1.0.1", 17, 7, 8)] * 63,
    [("10.0.1.3", "10.1.0.1", 17, 7, 8)] * 64,
]
light = [
    [(f"10.2.{i // 250}.{i % 250}", "10.1.0.1", rng.choice([6, 17]), rng.randrange(65536), 443)]
    * rng.randrange(1, 5)
    for i in range(400)
]
for flow in interleave(rng, heavy + light, 60):
    side = rng.randrange(2)
    frame = packet(*flow, payload=rng.randbytes(rng.randrange(0, 60)))
    traffic.add(frame, sent(1 - side, frame), side)
for i in range(70):
    # Ports differ but do not count behind options or in fragments.
    for frame in [
        packet("10.0.2.1", "10.1.0.1", 17, i, 9, b"x", options=b"\x01" * 4),
        packet(
            "10.0.2.2",
            "10.1.0.1",
            17,
            i,
            9,
            rng.randbytes(24),
            fragment=0x2000 if i % 2 else 0x0004,
        ),
    ]:
        traffic.add(frame, sent(1, frame), 0)
for side in [0, 1] * 10:
    for frame in [
        ethernet("ff:ff:ff:ff:ff:ff", "02:00:00:00:00:01", 0x0806, bytes(28)),
        ethernet(
            "02:00:00:00:00:02",
            "02:00:00:00:00:01",
            0x86DD,
            ipv6("2001:db8::1", "2001:db8::2", 59, b""),
        ),
        ethernet(
            "02:00:00:00:00:02",
            "02:00:00:00:00:01",
            0x8100,
            vlan(3, 0x0800, packet("10.0.0.1", "10.1.0.1", 6)[14:]),
        ),
    ]:
        traffic.add(frame, sent(1 - side, frame), side)
for frame in malformed(packet("10.9.9.9", "10.1.0.1", 6, 1, 2), 40):
    traffic.add(frame, "drop shorter than an IPv4 header" if len(frame) < 34 else sent(1, frame))
traffic.write()
