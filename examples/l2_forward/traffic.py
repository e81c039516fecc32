"""Frames of all kinds and sizes for l2_forward; writes traffic.pcap."""

import pathlib
import random
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent))
from packets import Traffic, ethernet, ipv4, malformed, sent, udp  # noqa: E402

rng = random.Random(1)
traffic = Traffic(__file__)


def add(frame):
    """Adds a frame; it should come back with its addresses swapped."""
    traffic.add(frame, sent(0, frame[6:12] + frame[:6] + frame[12:]))


for i in range(2000):
    size = rng.choice([0, 18, 46, 46, 100, 200]) if i % 50 else rng.choice([1400, 1500, 3386])
    src = f"10.0.{rng.randrange(4)}.{rng.randrange(1, 255)}"
    datagram = udp(
        src, "10.1.0.1", rng.randrange(1024, 65536), 53, rng.randbytes(max(0, size - 28))
    )
    kind = rng.choice([0x0800, 0x0800, 0x0806, 0x86DD, 0x8100])
    mac = f"02:00:00:00:{rng.randrange(256):02x}:02"
    add(ethernet("02:00:00:00:00:01", mac, kind, ipv4(src, "10.1.0.1", 17, datagram)))
for frame in malformed(
    ethernet("02:00:00:00:00:01", mac, 0x0800, ipv4(src, "10.1.0.1", 17, datagram))
):
    add(frame)
traffic.write()
