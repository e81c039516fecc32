"""Frames into and out of a VXLAN tunnel, for vxlan_gw; writes traffic.pcap (the local network),
traffic.1.pcap (the underlay) and tables.toml.
"""

import pathlib
import random
import struct
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent))
from packets import (
    Traffic,
    change,
    ethernet,
    ipv4,
    ipv6,
    malformed,
    nf_hash,
    pad,
    sent,
    tcp,
    udp,
    vlan,
)  # noqa: E402

rng = random.Random(9)
traffic = Traffic(__file__)
LOCAL, UNDERLAY = 0, 1
PORT = 4789
SELF, SELF_MAC, VNI = "192.0.2.1", "02:00:00:00:00:01", 0x012345
# Hosts elsewhere: (Ethernet address, endpoint in front of it, next hop there)
PEERS = [
    (f"02:00:00:00:{i % 3 + 2:02x}:{i:02x}", f"192.0.2.{i % 3 + 2}", f"02:00:00:00:00:0{i % 3 + 2}")
    for i in range(60)
]
traffic.tables(
    {
        "config": [(0, {"address": SELF, "mac": SELF_MAC, "vni": f"{VNI:06x}"})],
        "peers": [(host, {"address": address, "mac": hop}) for host, address, hop in PEERS],
    }
)


def vxlan(vni, inner, flags=0x08):
    """A VXLAN header and the frame behind it (RFC 7348, section 5)."""
    return struct.pack("!BxxxI", flags, vni << 8) + inner


def outer(src, dst, macs, payload, sport, **header):
    """The tunnel's frame; UDP without checksum, as section 5 wants it."""
    datagram = udp(src, dst, sport, PORT, payload, with_checksum=False)
    return ethernet(*macs, 0x0800, ipv4(src, dst, 17, datagram, fragment=0x4000, **header))


def inner(dst, src):
    """Some frame of the local network: IPv4, IPv6, ARP or tagged, now and then a large one."""
    kind = rng.randrange(8)
    size = rng.randrange(400, 1400) if rng.randrange(25) == 0 else rng.randrange(0, 60)
    payload = rng.randbytes(size)
    packet = ipv4("10.0.0.1", "10.0.0.2", 6, tcp("10.0.0.1", "10.0.0.2", 1, 2, 16, payload=payload))
    if kind == 0:
        return pad(ethernet(dst, src, 0x0806, bytes(28)))
    if kind == 1:
        return ethernet(
            dst,
            src,
            0x86DD,
            ipv6("fd00::1", "fd00::2", 17, udp("fd00::1", "fd00::2", 5, 6, payload)),
        )
    if kind == 2:
        return ethernet(dst, src, 0x8100, vlan(rng.randrange(1, 4095), 0x0800, packet))
    return ethernet(dst, src, 0x0800, packet)


for i in range(950):
    host, address, hop = rng.choice(PEERS)
    here = f"02:00:00:00:01:{rng.randrange(256):02x}"
    frame = inner(host, here)
    sport = 0xC000 | nf_hash(0, frame[:14]) & 0x3FFF
    traffic.add(
        frame,
        sent(UNDERLAY, outer(SELF, address, (hop, SELF_MAC), vxlan(VNI, frame), sport)),
        LOCAL,
    )
    # The other way.
    frame = inner(here, host)
    traffic.add(
        outer(address, SELF, (SELF_MAC, hop), vxlan(VNI, frame), rng.randrange(0xC000, 0x10000)),
        sent(LOCAL, frame),
        UNDERLAY,
    )
    if i % 8 == 0:
        traffic.add(inner("02:00:00:00:09:09", here), "drop unknown destination", LOCAL)
        traffic.add(inner("ff:ff:ff:ff:ff:ff", here), "drop unknown destination", LOCAL)

frame = inner("02:00:00:00:01:05", PEERS[0][0])
good = outer("192.0.2.2", SELF, (SELF_MAC, "02:00:00:00:00:02"), vxlan(VNI, frame), 0xC001)
for _ in range(10):
    for wrong, fate in [
        (
            change(good, 42, b"\xff"),
            sent(LOCAL, frame),
        ),  # bits besides the one that counts are ignored
        (change(good, 42, b"\x00"), "drop bad VXLAN header"),
        (change(good, 42, b"\xf7"), "drop bad VXLAN header"),
        (change(good, 46, b"\x99"), "drop another network's identifier"),
        (change(good, 47, b"\x99"), "drop another network's identifier"),
        (change(good, 48, b"\x99"), "drop another network's identifier"),
        (change(good, 12, b"\x86\xdd"), "stack"),
        (change(good, 14, b"\x46"), "stack"),
        (change(good, 20, b"\x20\x00"), "stack"),
        (change(good, 23, b"\x06"), "stack"),
        (change(good, 33, b"\x63"), "stack"),
        (change(good, 36, b"\x12\xb6"), "stack"),
        (ethernet("ff:ff:ff:ff:ff:ff", "02:00:00:00:00:02", 0x0806, bytes(28)), "stack"),
    ]:
        traffic.add(wrong, fate, UNDERLAY)
# The first 42 bytes are Ethernet, IPv4 and UDP; 8 of VXLAN and an Ethernet header follow.
for frame in malformed(good[:64], 50):
    fate = (
        "stack"
        if len(frame) < 42
        else "drop bad VXLAN header"
        if len(frame) < 50
        else "drop no frame inside"
    )
    traffic.add(frame, fate, UNDERLAY)
traffic.write()
