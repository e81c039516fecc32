"""Frames of all kinds and sizes for l2_forward; writes traffic.pcap."""

import pathlib
import random
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent))
from packets import Capture, ethernet, ipv4, malformed, udp  # noqa: E402

rng = random.Random(1)
capture = Capture()
for i in range(2000):
    size = rng.choice([0, 18, 46, 100, 500, 1400, 1500])
    src = f"10.0.{rng.randrange(4)}.{rng.randrange(1, 255)}"
    datagram = udp(src, "10.1.0.1", rng.randrange(1024, 65536), 53, rng.randbytes(max(0, size - 28)))
    kind = rng.choice([0x0800, 0x0800, 0x0806, 0x86DD, 0x8100])
    frame = ethernet("02:00:00:00:00:01", f"02:00:00:00:{rng.randrange(256):02x}:02", kind, ipv4(src, "10.1.0.1", 17, datagram))
    capture.add(frame)
for frame in malformed(frame):
    capture.add(frame)
capture.write(__file__)
