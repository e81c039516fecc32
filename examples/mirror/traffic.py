"""UDP both ways and ARP, for mirror; writes traffic.pcap (port 0), traffic.1.pcap and tables.toml."""

import pathlib
import random
import socket
import struct
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent))
from packets import Traffic, ethernet, ipv4, malformed, nf_hash, pad, sent, udp  # noqa: E402

SELF, COLLECTOR = "192.0.2.1", "192.0.2.9"
MAC, NEXT_HOP = "02:00:00:00:00:aa", "02:00:00:00:00:09"
rng = random.Random(47)
traffic = Traffic(__file__)
traffic.tables(
    {
        "config": [
            (
                0,
                {"address": SELF, "collector": COLLECTOR, "mac": MAC, "next_hop": NEXT_HOP},
            )
        ]
    }
)


def fate(frame, side, identity=None):
    """What leaves: the copy, if the hash chooses the packet, and the frame."""
    out = sent(1 - side, frame)
    if identity is None or nf_hash(0, identity) % 8:
        return out
    gre = struct.pack("!HH", 0, 0x88BE) + frame
    copy = ethernet(NEXT_HOP, MAC, 0x0800, ipv4(SELF, COLLECTOR, 47, gre))
    return f"{sent(1, copy)}; {out}"


for number in range(2000):
    side = rng.randrange(2)
    src, dst = f"10.0.0.{rng.randrange(1, 20)}", f"10.1.0.{rng.randrange(1, 20)}"
    body = udp(src, dst, rng.randrange(1024, 65536), 53, rng.randbytes(rng.randrange(0, 400)))
    packet = ipv4(src, dst, 17, body, identification=number)
    frame = pad(ethernet("02:00:00:00:00:02", "02:00:00:00:00:01", 0x0800, packet))
    identity = socket.inet_aton(src) + socket.inet_aton(dst) + struct.pack("!HBx", number, 17)
    traffic.add(frame, fate(frame, side, identity), side)
for side in [0, 1] * 10:
    frame = ethernet("ff:ff:ff:ff:ff:ff", "02:00:00:00:00:01", 0x0806, bytes(46))
    traffic.add(frame, fate(frame, side), side)
for frame in malformed(frame=ethernet(MAC, MAC, 0x0800, ipv4(SELF, COLLECTOR, 17, bytes(8)))[:33]):
    traffic.add(frame, fate(frame, 0))
traffic.write()
