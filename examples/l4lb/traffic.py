"""Clients of an IPv4 and an IPv6 service and the servers' answers, for l4lb; writes traffic.pcap
(from the clients), traffic.1.pcap (from the servers) and tables.toml with the Maglev rings.
"""

import hashlib
import ipaddress
import pathlib
import random
import struct
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent))
from packets import (  # noqa: E402
    ACK,
    FIN,
    PSH,
    SYN,
    Traffic,
    change,
    ethernet,
    icmp,
    interleave,
    ipv4,
    ipv6,
    malformed,
    nf_hash,
    pad,
    sent,
    tcp,
    udp,
    vlan,
)

rng = random.Random(6)
traffic = Traffic(__file__)
CLIENTS, SERVERS = 0, 1
TCP, UDP = 6, 17
RING = 251  # as in the program
OURS, CLIENT_MAC = "02:00:00:00:00:01", "02:00:00:00:01:01"

# (address, port, protocol): numbers of its backends
SERVICES = {
    ("192.0.2.10", 80, TCP): [1, 2, 3],
    ("192.0.2.10", 53, UDP): [1, 2, 3, 4],
    ("2001:db8::10", 443, TCP): [10, 11, 12, 13, 14],
    ("2001:db8::10", 443, UDP): [10, 11, 12],
}
BACKENDS = {i: f"10.1.0.{i}" for i in range(1, 5)} | {i: f"2001:db8:1::{i}" for i in range(10, 15)}


def maglev(names, size):
    """A Maglev ring: for each slot an index into `names`.

    Each backend has its own permutation of the slots, (offset + j * skip) mod size, which visits
    all because the size is prime. In turns, each backend takes the first slot of its permutation
    that is still free (Eisenbud et al., NSDI'16, section 3.4); so every backend gets the same
    number of slots, give or take one.
    """
    offset, skip = [], []
    for name in names:
        digest = hashlib.sha256(name.encode()).digest()
        offset.append(int.from_bytes(digest[:8], "big") % size)
        skip.append(int.from_bytes(digest[8:16], "big") % (size - 1) + 1)
    tried, ring, taken = [0] * len(names), [None] * size, 0
    while taken < size:
        for i in range(len(names)):
            while ring[(offset[i] + tried[i] * skip[i]) % size] is not None:
                tried[i] += 1
            ring[(offset[i] + tried[i] * skip[i]) % size] = i
            taken += 1
            if taken == size:
                break
    return ring


def address6(address):
    """16 bytes: an IPv4 address has zeroes behind it."""
    return ipaddress.ip_address(address).packed.ljust(16, b"\0")


def text6(address):
    """Those bytes as an IPv6 address, which is how they are written in tables."""
    return str(ipaddress.IPv6Address(address6(address)))


def mac_of(backend):
    return f"02:00:00:00:02:{backend:02x}"


rings = {}
for service, backends in SERVICES.items():
    slots = maglev([BACKENDS[i] for i in backends], RING)
    counts = [slots.count(i) for i in range(len(backends))]
    assert max(counts) - min(counts) <= 1
    rings[service] = [backends[slot] for slot in slots]
number = {service: i * RING for i, service in enumerate(SERVICES)}
traffic.tables(
    {
        "services": [
            (
                {"address": text6(address), "port": port, "protocol": protocol},
                {"ring": number[address, port, protocol]},
            )
            for address, port, protocol in SERVICES
        ],
        "backends": [
            (i, {"address": text6(address), "mac": mac_of(i)}) for i, address in BACKENDS.items()
        ],
        "rings": [
            (number[service] + slot, backend)
            for service, ring in rings.items()
            for slot, backend in enumerate(ring)
        ],
    }
)


def backend_of(client, sport, service):
    """The server a flow should go to."""
    address, port, protocol = service
    flow = address6(client) + address6(address) + struct.pack("!HHBxxx", sport, port, protocol)
    return rings[service][nf_hash(0, flow) % RING]


def packet(source, target, protocol, payload, macs, flags=PSH | ACK, with_checksum=True):
    """A frame between two endpoints (address, port); macs are destination and source."""
    ends, ports = (source[0], target[0]), (source[1], target[1])
    if protocol == TCP:
        body = tcp(*ends, *ports, flags, 1000, 2000, payload)
    else:
        body = udp(*ends, *ports, payload, with_checksum)
    if ":" in ends[0]:
        return pad(ethernet(*macs, 0x86DD, ipv6(*ends, protocol, body)))
    return pad(ethernet(*macs, 0x0800, ipv4(*ends, protocol, body)))


def request(client, sport, service, **more):
    """A client sends to a service."""
    address, port, protocol = service
    backend = backend_of(client, sport, service)
    to = (BACKENDS[backend], port)
    macs, new_macs = (OURS, CLIENT_MAC), (mac_of(backend), OURS)
    frame = packet((client, sport), (address, port), protocol, macs=macs, **more)
    traffic.add(
        frame, sent(SERVERS, packet((client, sport), to, protocol, macs=new_macs, **more)), CLIENTS
    )


def answer(client, sport, service, **more):
    """The server answers."""
    address, port, protocol = service
    backend = backend_of(client, sport, service)
    frame = packet(
        (BACKENDS[backend], port), (client, sport), protocol, macs=(OURS, mac_of(backend)), **more
    )
    rewritten = packet((address, port), (client, sport), protocol, macs=(CLIENT_MAC, OURS), **more)
    traffic.add(frame, sent(CLIENTS, rewritten), SERVERS)


threads = []
for i in range(260):
    service = rng.choice(list(SERVICES))
    client = (
        f"2001:db8:99::{rng.randrange(1, 999):x}"
        if ":" in service[0]
        else f"10.9.0.{rng.randrange(1, 250)}"
    )
    flow = (client, 20000 + i, service)
    turns = rng.randrange(1, 5)
    if service[2] == TCP:
        thread = [(request, flow, SYN), (answer, flow, SYN | ACK), (request, flow, ACK)]
        thread += [(request, flow, PSH | ACK), (answer, flow, PSH | ACK)] * turns
        thread += [(request, flow, FIN | ACK), (answer, flow, FIN | ACK)]
    else:
        thread = [(request, flow, 0), (answer, flow, 0)] * turns
    threads.append(thread)
for send, flow, flags in interleave(rng, threads):
    payload = rng.randbytes(rng.randrange(1, 80)) if flags in (0, PSH | ACK) else b""
    with_checksum = ":" in flow[0] or rng.randrange(4) > 0
    send(*flow, flags=flags, payload=payload, with_checksum=with_checksum)
# Payloads with which the rewritten checksum comes out as zero, which UDP writes as 0xffff.
for i in range(20):
    for client, service in [
        ("10.9.1.1", ("192.0.2.10", 53, UDP)),
        ("2001:db8:99::1", ("2001:db8::10", 443, UDP)),
    ]:
        backend = BACKENDS[backend_of(client, 3000 + i, service)]
        bare = udp(client, backend, 3000 + i, service[1], b"\0\0")
        request(client, 3000 + i, service, payload=bare[6:8])

# What is not balanced.
for i in range(10):
    client4, client6 = ("10.9.2.1", 40000 + i), ("2001:db8:99::2", 40000 + i)
    good = packet(client4, ("192.0.2.10", 80), TCP, b"hello", (OURS, CLIENT_MAC))
    for frame, fate in [
        (packet(client4, ("192.0.2.10", 81), TCP, b"", (OURS, CLIENT_MAC)), "stack"),
        (packet(client4, ("192.0.2.10", 80), UDP, b"", (OURS, CLIENT_MAC)), "stack"),
        (packet(client4, ("192.0.2.11", 80), TCP, b"", (OURS, CLIENT_MAC)), "stack"),
        (packet(client6, ("2001:db8::11", 443), TCP, b"", (OURS, CLIENT_MAC)), "stack"),
        (
            ethernet(OURS, CLIENT_MAC, 0x0800, ipv4("10.9.2.1", "192.0.2.10", 1, icmp(8, 0, 1, i))),
            "stack",
        ),
        (
            ethernet(OURS, CLIENT_MAC, 0x86DD, ipv6("2001:db8::5", "2001:db8::10", 44, bytes(40))),
            "stack",
        ),
        (ethernet("ff:ff:ff:ff:ff:ff", CLIENT_MAC, 0x0806, bytes(28)), "stack"),
        (ethernet(OURS, CLIENT_MAC, 0x8100, vlan(9, 0x0800, good[14:])), "stack"),
        (change(good, 14, b"\x46"), "drop truncated, options or fragment"),
        (change(good, 20, b"\x20\x00"), "drop truncated, options or fragment"),
        (change(good, 20, b"\x00\x02"), "drop truncated, options or fragment"),
    ]:
        traffic.add(frame, fate, CLIENTS)
    for server, client in [(("10.1.0.1", 80), client4), (("2001:db8:1::a", 443), client6)]:
        frame = packet(server, client, TCP, b"", (OURS, mac_of(1)))
        traffic.add(frame, "drop answer to no request", SERVERS)
for frame in malformed(good[:38], 24):
    traffic.add(
        frame, "drop truncated, options or fragment" if len(frame) < 34 else "stack", CLIENTS
    )
good6 = packet(client6, ("2001:db8::10", 443), TCP, b"hello", (OURS, CLIENT_MAC))
for frame in malformed(good6[:58], 44):
    traffic.add(
        frame, "drop truncated, options or fragment" if len(frame) < 54 else "stack", CLIENTS
    )
traffic.write()
