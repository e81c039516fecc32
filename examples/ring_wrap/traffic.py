"""A ring whose neighbours fall silent, for ring_wrap; writes traffic.pcap and traffic.1.pcap."""

import pathlib
import random
import struct
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent))
from packets import Traffic, ethernet, ipv4, mac, pad, sent, udp  # noqa: E402

SILENCE = 35_000_000
HELLO = 0x88B5
rng = random.Random(35)
traffic = Traffic(__file__)
heard = [0, 0]
greeted = 0


def alive(port, now):
    return heard[port] != 0 and now - heard[port] <= SILENCE


def greet(now):
    """The hellos of a tick."""
    global greeted
    head = mac("01:80:c2:00:00:0e") + mac("02:00:00:00:00:01")
    head += struct.pack("!HI", HELLO, greeted)
    greeted += 1
    frames = [head + bytes([port, alive(port, now)]) + bytes(40) for port in (0, 1)]
    return "; ".join(sent(port, frame) for port, frame in enumerate(frames))


traffic.every(10_000_000, greet)


def hello(port, after):
    """A neighbour's hello."""

    def fate():
        heard[port] = traffic.now
        return "drop hello"

    body = struct.pack("!IBB", 0, port, 1) + bytes(40)
    traffic.add(ethernet("01:80:c2:00:00:0e", "02:00:00:00:00:02", HELLO, body), fate, port, after)


def packet(port, after):
    """A packet on its way round the ring."""
    src, dst = f"10.{port}.0.1", f"10.{1 - port}.0.1"
    body = udp(src, dst, 5000, 53, rng.randbytes(rng.randrange(0, 100)))
    frame = pad(
        ethernet("02:00:00:00:00:03", "02:00:00:00:00:04", 0x0800, ipv4(src, dst, 17, body))
    )

    def fate():
        ways = [way for way in (1 - port, port) if alive(way, traffic.now)]
        return sent(ways[0], frame) if ways else "drop alone"

    traffic.add(frame, fate, port, after)


for _ in range(40):
    up = [port for port in (0, 1) if rng.random() < 0.7]
    for _ in range(rng.randrange(2, 10)):
        for port in up:
            hello(port, rng.randrange(1, 1_000_000))
        for _ in range(rng.randrange(1, 20)):
            packet(rng.randrange(2), rng.randrange(1, 1_500_000))
traffic.write()
