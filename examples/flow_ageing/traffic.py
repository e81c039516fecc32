"""Flows that end at different times, for flow_ageing; writes traffic.pcap (port 0) and
traffic.1.pcap."""

import pathlib
import random
import socket
import struct
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent))
from packets import Traffic, ethernet, ipv4, message, nf_hash, pad, sent, udp  # noqa: E402

ENTRIES, BATCH, IDLE = 1024, 16, 1_000_000_000
rng = random.Random(26)
traffic = Traffic(__file__)
flows = {}
hand = 0


def age(now):
    """What a tick tells the host side."""
    global hand
    gone = []
    for entry in (entry % ENTRIES for entry in range(hand, hand + BATCH)):
        if entry in flows and now - flows[entry][2] >= IDLE:
            flow, packets, last = flows.pop(entry)
            gone.append(message(flow + struct.pack("<I4xQ", packets, last)))
    hand = (hand + BATCH) % ENTRIES
    return "; ".join(gone) or "nothing"


traffic.every(10_000_000, age)


def packet(src, dst, side):
    body = udp(src, dst, rng.randrange(1, 65536), 53, rng.randbytes(20))
    frame = pad(
        ethernet("02:00:00:00:00:02", "02:00:00:00:00:01", 0x0800, ipv4(src, dst, 17, body))
    )
    traffic.add(frame, sent(1 - side, frame), side, rng.randrange(1, 4_000_000))
    flow = socket.inet_aton(src) + socket.inet_aton(dst) + struct.pack("<HHB3x", 0, 0, 17)
    entry = nf_hash(1, flow) % ENTRIES
    packets = flows[entry][1] + 1 if entry in flows and flows[entry][0] == flow else 1
    flows[entry] = (flow, packets, traffic.now)


# Flows of different lives: new ones begin while others end.
for turn in range(2000):
    number = turn // 20 + rng.randrange(30)
    packet(f"10.0.{number // 200}.{number % 200 + 1}", "10.1.0.1", rng.randrange(2))
for side in [0, 1] * 10:
    frame = ethernet("ff:ff:ff:ff:ff:ff", "02:00:00:00:00:01", 0x0806, bytes(46))
    traffic.add(frame, sent(1 - side, frame), side, 100_000_000)
traffic.write()
