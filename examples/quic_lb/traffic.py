"""QUIC connections over IPv4 and IPv6 whose clients change their addresses, for quic_lb; writes
traffic.pcap (from the clients), traffic.1.pcap (from the servers) and tables.toml.
"""

import ipaddress
import pathlib
import random
import struct
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent))
from packets import (  # noqa: E402
    Traffic,
    change,
    ethernet,
    icmp,
    interleave,
    ipv4,
    ipv6,
    mac,
    malformed,
    nf_hash,
    pad,
    sent,
    tcp,
    udp,
    vlan,
)

rng = random.Random(13)
traffic = Traffic(__file__)
CLIENTS, SERVERS = 0, 1
RING = 64  # as in the program
OURS, CLIENT_MAC = "02:00:00:00:00:01", "02:00:00:00:01:01"
SERVICE4, SERVICE6 = "192.0.2.10", "2001:db8::10"

# Servers by their number in connection identifiers; connections without one go to the first three.
SERVER_IDS = [0x0001, 0x0002, 0x0100, 0xBEEF, 0x7F00]
ring = [i * 7 % 3 for i in range(RING)]


def mac_of(server):
    return f"02:00:00:00:02:{server + 1:02x}"


traffic.tables(
    {
        "servers": [
            ({"b": f"{number:04x}"}, {"mac": mac_of(i)}) for i, number in enumerate(SERVER_IDS)
        ],
        "ring": [(slot, {"mac": mac_of(server)}) for slot, server in enumerate(ring)],
    }
)


def by_ring(client, sport):
    """The server of a client whose packets name none."""
    service = SERVICE6 if ":" in client else SERVICE4
    ends = [ipaddress.ip_address(address).packed.ljust(16, b"\0") for address in (client, service)]
    return ring[nf_hash(0, b"".join(ends) + struct.pack("!HH", sport, 443)) % RING]


def packet(client, sport, content, port=443, options=b""):
    service = SERVICE6 if ":" in client else SERVICE4
    datagram = udp(client, service, sport, port, content)
    if ":" in client:
        return pad(ethernet(OURS, CLIENT_MAC, 0x86DD, ipv6(client, service, 17, datagram)))
    return pad(
        ethernet(OURS, CLIENT_MAC, 0x0800, ipv4(client, service, 17, datagram, options=options))
    )


def long_header(identifier, kind=0):
    """An Initial (0) or Handshake (2) packet (RFC 9000, 17.2); behind the identifiers it is
    noise."""
    return (
        bytes([0xC0 | kind << 4, 0, 0, 0, 1, len(identifier)])
        + identifier
        + b"\x04abcd"
        + rng.randbytes(rng.randrange(8, 60))
    )


def short_header(identifier):
    """A packet of an established connection (RFC 9000, 17.3)."""
    return bytes([0x40 | rng.randrange(64)]) + identifier + rng.randbytes(rng.randrange(8, 60))


def send(client, sport, content, server=None, options=b""):
    """Adds a client's packet, which should go to `server`, or where the ring says."""
    frame = packet(client, sport, content, options=options)
    server = by_ring(client, sport) if server is None else server
    traffic.add(frame, sent(SERVERS, mac(mac_of(server)) + frame[6:]), CLIENTS)


def answer(client, sport, content):
    """Adds a server's packet, which passes as it is."""
    service = SERVICE6 if ":" in client else SERVICE4
    datagram = udp(service, client, 443, sport, content)
    packet = (
        ipv6(service, client, 17, datagram)
        if ":" in client
        else ipv4(service, client, 17, datagram)
    )
    frame = pad(ethernet(CLIENT_MAC, OURS, 0x86DD if ":" in client else 0x0800, packet))
    traffic.add(frame, sent(CLIENTS, frame), SERVERS)


def a_client():
    if rng.randrange(2):
        return f"2001:db8:99::{rng.randrange(1, 60000):x}", rng.randrange(1024, 65536)
    return f"10.{rng.randrange(256)}.{rng.randrange(256)}.{rng.randrange(1, 255)}", rng.randrange(
        1024, 65536
    )


def random_identifier():
    """What a client begins with: eight random bytes that name no server."""
    while True:
        identifier = rng.randbytes(8)
        if identifier[0] >> 5 == 7 or int.from_bytes(identifier[1:3], "big") not in SERVER_IDS:
            return identifier


threads = []
for _ in range(160):
    client = a_client()
    first = random_identifier()
    chosen = by_ring(*client)
    # The server's own identifier: configuration, its number, and what it likes.
    own = (
        bytes([rng.randrange(0xE0)])
        + SERVER_IDS[chosen].to_bytes(2, "big")
        + rng.randbytes(rng.randrange(1, 6))
    )
    thread = [
        (send, client, long_header(first), None),
        (answer, client, long_header(b"abcd")),
        (send, client, long_header(own, 2), chosen),
    ]
    for _ in range(rng.randrange(2, 8)):
        if rng.randrange(3) == 0:
            client = a_client()  # the client moves; its server stays
        thread += [
            (send, client, short_header(own), chosen),
            (answer, client, short_header(b"abcd")),
        ]
    threads.append(thread)
for call, client, *rest in interleave(rng, threads):
    call(*client, *rest)

for i in range(40):
    client = a_client()
    number = SERVER_IDS[i % 5]
    named = bytes([i, number >> 8, number & 255])
    send(
        *client, short_header(bytes([0xE0 | i & 31]) + named[1:] + b"12345")
    )  # says that it names no server
    send(*client, long_header(bytes([0xE0 | i & 31]) + named[1:] + b"12345"))
    send(*client, long_header(named))  # too short to name one
    send(*client, long_header(named + b"4"), i % 5)
    send(*client, long_header(b""))
    send(*client, short_header(bytes([i]) + b"\xab\xcd\xef12345"))  # a number that no server has
    send(*client, b"")
    send(*client, (b"\x40" + named)[: i % 4 + 1])
    send(*client, (b"\xc0\0\0\0\1\x08" + named)[: i % 9 + 1])
    if ":" not in client[0]:
        send(*client, short_header(named + b"45678"), i % 5, options=b"\1" * 4 * (i % 11))

# What is no QUIC for us.
client = ("10.0.0.1", 4000)
good = packet(*client, short_header(b"\0\0\1abcde"))
for _ in range(12):
    for frame in [
        packet(*client, b"hello", port=444),
        packet("2001:db8:99::1", 4000, b"hello", port=53),
        change(good, 20, b"\x20\x00"),
        change(good, 20, b"\x00\x03"),
        ethernet(
            OURS,
            CLIENT_MAC,
            0x0800,
            ipv4("10.0.0.1", SERVICE4, 6, tcp("10.0.0.1", SERVICE4, 4000, 443, 2)),
        ),
        ethernet(OURS, CLIENT_MAC, 0x0800, ipv4("10.0.0.1", SERVICE4, 1, icmp(8, 0, 1, 1))),
        ethernet("ff:ff:ff:ff:ff:ff", CLIENT_MAC, 0x0806, bytes(28)),
        ethernet(OURS, CLIENT_MAC, 0x8100, vlan(2, 0x0800, good[14:])),
    ]:
        traffic.add(frame, "stack", CLIENTS)
    traffic.add(change(good, 14, b"\x4f")[:60], "drop truncated options", CLIENTS)
    traffic.add(change(good, 38, b"\0\x07"), "drop bad UDP length", CLIENTS)
    traffic.add(bytes(14), sent(CLIENTS, bytes(14)), SERVERS)
for frame in malformed(good[:42], 28):
    traffic.add(frame, "drop shorter than an IPv4 header" if len(frame) < 34 else "stack", CLIENTS)
for frame in malformed(packet("2001:db8:99::1", 4000, b"")[:62], 48):
    traffic.add(frame, "drop shorter than an IPv6 header" if len(frame) < 54 else "stack", CLIENTS)
traffic.write()
