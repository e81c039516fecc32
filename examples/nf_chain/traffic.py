"""Clients, servers and trouble-makers for nf_chain; writes traffic.pcap (port 0), traffic.1.pcap
(port 1), tables.toml.

Whole TCP connections to two services, one source that opens too many, one denied by policy, idle
ones, ports used again, segments without a connection, plain IP, ARP, and frames that end inside
their headers.
"""

import pathlib
import random
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent))
from packets import (
    ACK,
    FIN,
    PSH,
    RST,
    SYN,
    Traffic,
    ethernet,
    interleave,
    ipv4,
    mac,
    malformed,
    sent,
    tcp,
    udp,
)  # noqa: E402

rng = random.Random(7)
traffic = Traffic(__file__)
OURS = "02:00:00:00:00:01"
SERVICES = [("192.0.2.10", 80), ("192.0.2.20", 443), ("192.0.2.30", 25)]
SERVERS = [3, 4, 0]  # the last service has none at the moment
DENIED = ("10.66.6.6", 6666)
CLIENT, SERVER = 0, 1
MAX_OPEN, IDLE_NS = 16, 60_000_000_000  # as in the program

# What the chain should know: of each connection when it was last seen and whether it counts as
# open; open ones by source; of each connection its server, and how many connections each service
# has had.
connections, sources = {}, {}
assigned, turns = {}, {}


def server_of(client, sport, service):
    """Ethernet address of the server that a connection goes to."""
    number = SERVICES.index(service)
    if (client, sport, service) not in assigned:
        turn = turns.get(service, 0)
        turns[service] = turn + 1
        assigned[client, sport, service] = turn % SERVERS[number]
    return f"02:00:00:00:{number + 2:02x}:{assigned[client, sport, service] + 1:02x}"


def fate(frame, side, client, sport, service, flags, now):
    """What should become of a frame with such a segment, and what the chain should remember of
    it."""
    key = (client, sport, service)
    if (client, sport) == DENIED:
        return "drop denied by policy"
    last_seen, counted = connections.get(key, (None, False))
    opens = side == CLIENT and flags & (SYN | ACK) == SYN
    if (last_seen is None or now - last_seen > IDLE_NS) and not opens:
        return "drop no such connection"
    if opens and not counted:
        if service not in SERVICES[:2]:
            return "drop no such service"
        if sources.get(client, 0) >= MAX_OPEN:
            return "drop too many open connections"
        sources[client] = sources.get(client, 0) + 1
        counted = True
    elif flags & (FIN | RST) and counted:
        sources[client] -= 1
        counted = False
    connections[key] = (now, counted)
    return sent(1, mac(server_of(*key)) + frame[6:]) if side == CLIENT else sent(0, frame)


def segment(side, client, sport, service, flags, payload=b""):
    """One TCP segment of a connection, from the client's or the server's side."""
    ends = (client, service[0]) if side == CLIENT else (service[0], client)
    ports = (sport, service[1]) if side == CLIENT else (service[1], sport)
    body = tcp(*ends, *ports, flags, rng.randrange(1 << 32), rng.randrange(1 << 32), payload)
    return ethernet(OURS, f"02:00:00:00:01:0{side + 1}", 0x0800, ipv4(*ends, 6, body))


def send(side, client, sport, service, flags, after_ns=None):
    """Adds a segment with the fate it should have."""
    size = (
        0
        if not flags & PSH
        else rng.randrange(20, 100)
        if side == CLIENT
        else rng.randrange(50, 400)
    )
    after_ns = after_ns or rng.randrange(1_000, 50_000)
    frame = segment(side, client, sport, service, flags, rng.randbytes(size))
    traffic.add(
        frame,
        fate(frame, side, client, sport, service, flags, traffic.now + after_ns),
        side,
        after_ns,
    )


def connection(client, sport, service, turns, close=True):
    """Segments of one connection, as `send` takes them."""
    segments = [(CLIENT, SYN), (SERVER, SYN | ACK), (CLIENT, ACK)]
    segments += [(CLIENT, PSH | ACK), (SERVER, PSH | ACK)] * turns
    if close:
        segments += [(CLIENT, FIN | ACK), (SERVER, FIN | ACK), (CLIENT, ACK)]
    return [(side, client, sport, service, flags) for side, flags in segments]


threads = []
for i in range(110):
    client = f"10.0.{i % 4}.{rng.randrange(1, 30)}"
    service = rng.choice(SERVICES[:2])
    threads.append(connection(client, 20000 + i, service, rng.randrange(1, 10), rng.random() < 0.8))
    if i % 8 == 0:
        # The same ports again.
        threads[-1] += connection(client, 20000 + i, service, 1)
# One source opens more connections than it may.
threads += [connection("10.9.9.9", 30000 + i, SERVICES[0], 1, close=i % 5 == 0) for i in range(30)]
# Nobody listens at this address, nobody serves that one; whoever tries is not held against.
for i in range(20):
    threads.append(connection("10.0.5.1", 40000 + i, [("192.0.2.99", 80), SERVICES[2]][i % 2], 1))
threads.append(connection("10.0.5.1", 41000, SERVICES[0], 2))
# This flow is denied.
threads.append(connection(*DENIED, SERVICES[0], 3))
# Segments out of nowhere.
for i in range(60):
    threads.append(
        [(CLIENT, "10.0.7.7", 50000 + i, SERVICES[0], rng.choice([ACK, RST, PSH | ACK]))]
    )
    threads.append([(SERVER, "10.0.7.8", 50000 + i, SERVICES[0], rng.choice([ACK, SYN]))])
for item in interleave(rng, threads):
    send(*item)

# Other protocols, fragments, options, and frames that end inside their headers.
datagram = udp("10.0.0.1", "192.0.2.10", 5353, 53, b"hello")
plain = segment(CLIENT, "10.0.0.1", 1, SERVICES[0], SYN)
for _ in range(10):
    for packet in [
        ipv4("10.0.0.1", "192.0.2.10", 17, datagram),
        ipv4("10.0.0.1", "192.0.2.10", 6, plain[34:], options=b"\x01" * 4),
        ipv4("10.0.0.1", "192.0.2.10", 6, plain[34:], fragment=0x2000),
        ipv4("10.0.0.1", "192.0.2.10", 6, plain[34:], fragment=0x0003),
    ]:
        traffic.add(
            ethernet(OURS, "02:00:00:00:01:01", 0x0800, packet), "drop not a plain TCP segment"
        )
    traffic.add(ethernet("ff:ff:ff:ff:ff:ff", "02:00:00:00:01:01", 0x0806, bytes(28)), "stack")
for frame in malformed(plain, 40):
    short = "an IPv4 header" if len(frame) < 34 else "a TCP header"
    traffic.add(frame, f"drop shorter than {short}")

# Just not idle, then idle, then opened again without being counted twice.
send(CLIENT, "10.0.8.8", 1234, SERVICES[1], SYN)
send(SERVER, "10.0.8.8", 1234, SERVICES[1], SYN | ACK, after_ns=IDLE_NS)
send(CLIENT, "10.0.8.8", 1234, SERVICES[1], ACK, after_ns=IDLE_NS + 1)
for item in connection("10.0.8.8", 1234, SERVICES[1], 2):
    send(*item)
assert sources["10.0.8.8"] == 0
traffic.write()

services = []
for number, (address, _) in enumerate(SERVICES):
    macs = [f"02:00:00:00:{number + 2:02x}:{i:02x}" for i in range(1, SERVERS[number] + 1)]
    macs += ["00:00:00:00:00:00"] * (8 - len(macs))
    services.append((address, {"gateway": OURS, "servers": SERVERS[number], "server": macs}))
denied = {
    "src": DENIED[0],
    "dst": SERVICES[0][0],
    "sport": DENIED[1],
    "dport": SERVICES[0][1],
    "protocol": 6,
}
traffic.tables({"services": services, "policy": [(denied, {"deny": 1})]})
