"""Pings of all sizes, and what is no ping, for icmp_echo; writes traffic.pcap."""

import pathlib
import random
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent))
from packets import (
    ACK,
    Traffic,
    change,
    ethernet,
    icmp,
    ipv4,
    ipv6,
    malformed,
    pad,
    sent,
    tcp,
    udp,
    vlan,
)  # noqa: E402

rng = random.Random(2)
traffic = Traffic(__file__)
US, OUR_MAC = "192.0.2.1", "02:00:00:00:00:01"


def host():
    """Addresses of somebody: Ethernet and IPv4."""
    number = rng.randrange(1, 255)
    return f"02:00:00:00:01:{number:02x}", f"10.0.0.{number}"


def ping(message, to=OUR_MAC, **header):
    """An ICMP message as a frame."""
    mac, address = host()
    return pad(ethernet(to, mac, 0x0800, ipv4(address, US, 1, message, **header)))


def echo():
    """An echo request that would be answered if nothing else were wrong."""
    return icmp(8, 0, rng.randrange(65536), rng.randrange(65536), rng.randbytes(rng.randrange(40)))


for _ in range(1700):
    mac, address = host()
    number, turn = rng.randrange(65536), rng.randrange(65536)
    payload = rng.randbytes(
        rng.randrange(500, 1400) if rng.randrange(20) == 0 else rng.randrange(0, 90)
    )
    request = ipv4(
        address,
        US,
        1,
        icmp(8, 0, number, turn, payload),
        ttl=rng.randrange(1, 256),
        identification=turn,
    )
    reply = ipv4(US, address, 1, icmp(0, 0, number, turn, payload), ttl=64, identification=turn)
    answer = pad(ethernet(mac, OUR_MAC, 0x0800, reply))
    traffic.add(pad(ethernet(OUR_MAC, mac, 0x0800, request)), sent(0, answer))
    if rng.randrange(6) == 0:
        others = [
            ping(icmp(0, 0, 1, 2, b"a reply")),
            ping(icmp(8, 1, 1, 2, b"code 1")),
            ping(icmp(13, 0, 1, 2, bytes(12))),
            ping(echo(), options=b"\x01" * 4),
            ping(echo(), fragment=0x2000),
            ping(echo(), fragment=0x0010),
            ping(echo(), to="ff:ff:ff:ff:ff:ff"),
            ping(echo(), to="01:00:5e:00:00:01"),
            change(ping(echo()), 14, b"\x65"),
            change(ping(echo()), 16, b"\x10\x00"),
            change(ping(echo()), 16, b"\x00\x10"),
            pad(
                ethernet(
                    OUR_MAC,
                    host()[0],
                    0x0800,
                    ipv4(host()[1], US, 17, udp(host()[1], US, 9, 7, b"hello")),
                )
            ),
            pad(
                ethernet(
                    OUR_MAC,
                    host()[0],
                    0x0800,
                    ipv4(host()[1], US, 6, tcp(host()[1], US, 9, 80, ACK)),
                )
            ),
            pad(
                ethernet(
                    OUR_MAC,
                    host()[0],
                    0x86DD,
                    ipv6("fe80::1", "fe80::2", 58, bytes([128, 0, 0, 0, 0, 1, 0, 1])),
                )
            ),
            pad(ethernet("ff:ff:ff:ff:ff:ff", host()[0], 0x0806, bytes(28))),
            pad(
                ethernet(
                    OUR_MAC, host()[0], 0x8100, vlan(7, 0x0800, ipv4(host()[1], US, 1, echo()))
                )
            ),
        ]
        for other in others if rng.randrange(8) == 0 else rng.sample(others, 2):
            traffic.add(other, "stack")
# Cut short within a header, or within the payload: not for us to answer.
mac, address = host()
for frame in malformed(
    ethernet(OUR_MAC, mac, 0x0800, ipv4(address, US, 1, icmp(8, 0, 1, 1, bytes(40)))), 30
):
    traffic.add(frame, "stack")
traffic.write()
