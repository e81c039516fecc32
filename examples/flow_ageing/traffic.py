"""Flows that end at different times, for flow_ageing; writes traffic.pcap (port 0) and
traffic.1.pcap."""

import pathlib
import random
import socket
import struct
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent))
from packets import Traffic, ethernet, ipv4, message, pad, sent, udp  # noqa: E402

TICKS, MOST, IDLE = 64, 16, 1_000_000_000
rng = random.Random(26)
traffic = Traffic(__file__)
flows = {}


def expire(now):
    """What a tick tells the host side."""
    first = sorted(flows, key=lambda flow: (flows[flow][1], flow))[:MOST]
    gone = [flow for flow in first if now - flows[flow][1] >= IDLE]
    told = [message(flow + struct.pack("<I4xQ", *flows.pop(flow))) for flow in gone]
    return "; ".join(told) or "nothing"


traffic.every(-(-IDLE // TICKS), expire)


def packet(src, dst, side):
    body = udp(src, dst, rng.randrange(1, 65536), 53, rng.randbytes(20))
    frame = pad(
        ethernet("02:00:00:00:00:02", "02:00:00:00:00:01", 0x0800, ipv4(src, dst, 17, body))
    )
    traffic.add(frame, sent(1 - side, frame), side, rng.randrange(1, 4_000_000))
    flow = socket.inet_aton(src) + socket.inet_aton(dst) + struct.pack("<HHB3x", 0, 0, 17)
    flows[flow] = (flows.get(flow, (0, 0))[0] + 1, traffic.now)


# Flows of different lives: new ones begin while others end.
for turn in range(2000):
    number = turn // 20 + rng.randrange(30)
    packet(f"10.0.{number // 200}.{number % 200 + 1}", "10.1.0.1", rng.randrange(2))
for side in [0, 1] * 10:
    frame = ethernet("ff:ff:ff:ff:ff:ff", "02:00:00:00:00:01", 0x0806, bytes(46))
    traffic.add(frame, sent(1 - side, frame), side, 100_000_000)
traffic.write()
