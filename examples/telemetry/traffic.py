"""Bursts of UDP and pauses, for telemetry; writes traffic.pcap (port 0) and traffic.1.pcap."""

import pathlib
import random
import socket
import struct
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent))
from packets import Traffic, ethernet, ipv4, pad, sent, udp  # noqa: E402

RECORDS, DEADLINE = 32, 1_000_000
HEAD = bytes.fromhex("02000000000902000000000188b5")
rng = random.Random(32)
traffic = Traffic(__file__)
batch, since = [], 0


def flush():
    """The frame to the collector."""
    frame = HEAD + b"".join(batch)
    batch.clear()
    return sent(1, frame)


def deadline(now):
    return flush() if batch and now - since >= DEADLINE else "nothing"


traffic.every(100_000, deadline)


def packet(side, after):
    """A packet and what leaves: the batch, if it is full, and the packet."""
    global since
    src, dst = f"10.0.0.{rng.randrange(1, 20)}", f"10.1.0.{rng.randrange(1, 20)}"
    body = udp(src, dst, 5000, 53, rng.randbytes(rng.randrange(0, 100)))
    frame = pad(
        ethernet("02:00:00:00:00:02", "02:00:00:00:00:01", 0x0800, ipv4(src, dst, 17, body))
    )
    fates = []

    def fate():
        global since
        if not batch:
            since = traffic.now
        record = socket.inet_aton(src) + socket.inet_aton(dst) + struct.pack("!H", 20 + len(body))
        batch.append(record + struct.pack("<BBI", 17, side, traffic.now // 1000 & 0xFFFFFFFF))
        if len(batch) == RECORDS:
            fates.append(flush())
        return "; ".join([*fates, sent(1 - side, frame)])

    traffic.add(frame, fate, side, after)


for _ in range(60):
    for _ in range(rng.randrange(1, 70)):
        packet(rng.randrange(2), rng.randrange(1, 40_000))
    arp = ethernet("ff:ff:ff:ff:ff:ff", "02:00:00:00:00:01", 0x0806, bytes(46))
    traffic.add(arp, sent(1, arp), 0, rng.randrange(1, 3_000_000))
traffic.write()
