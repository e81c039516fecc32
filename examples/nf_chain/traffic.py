"""Clients, servers and trouble-makers for nf_chain; writes traffic.pcap (port 0), traffic.1.pcap (port 1), tables.toml.

Whole TCP connections to two services, one source that opens too many, one denied by policy, segments without a
connection, plain IP, ARP, and frames that end inside their headers.
"""

import pathlib
import random
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent))
from packets import ACK, FIN, PSH, RST, SYN, Capture, ethernet, ipv4, malformed, tcp, udp  # noqa: E402

rng = random.Random(7)
OURS = "02:00:00:00:00:01"
SERVICES = [("192.0.2.10", 80), ("192.0.2.20", 443)]
clients, servers = Capture(), Capture()


def segment(src, dst, sport, dport, flags, payload=b"", mac="02:00:00:00:01:01"):
    body = tcp(src, dst, sport, dport, flags, rng.randrange(1 << 32), rng.randrange(1 << 32), payload)
    return ethernet(OURS, mac, 0x0800, ipv4(src, dst, 6, body))


def connection(client, sport, service, turns, close=True):
    """Frames of one connection: (which side sends, frame)."""
    address, port = service
    out = [("client", segment(client, address, sport, port, SYN))]
    out.append(("server", segment(address, client, port, sport, SYN | ACK)))
    out.append(("client", segment(client, address, sport, port, ACK)))
    for _ in range(turns):
        out.append(("client", segment(client, address, sport, port, PSH | ACK, rng.randbytes(rng.randrange(20, 200)))))
        out.append(("server", segment(address, client, port, sport, PSH | ACK, rng.randbytes(rng.randrange(200, 1400)))))
    if close:
        out.append(("client", segment(client, address, sport, port, FIN | ACK)))
        out.append(("server", segment(address, client, port, sport, FIN | ACK)))
    return out


threads = []
for i in range(120):
    client = f"10.0.{i % 4}.{rng.randrange(1, 30)}"
    threads.append(connection(client, 20000 + i, rng.choice(SERVICES), rng.randrange(1, 12), rng.random() < 0.8))
# One source opens more connections than it may.
for i in range(30):
    threads.append(connection("10.9.9.9", 30000 + i, SERVICES[0], 1, close=i % 5 == 0))
# Nobody listens at this address.
for i in range(10):
    threads.append(connection(f"10.0.5.{i + 1}", 40000 + i, ("192.0.2.99", 80), 1))
# This flow is denied.
threads.append(connection("10.66.6.6", 6666, SERVICES[0], 3))
# Segments out of nowhere, resets, other protocols.
strays = []
for i in range(60):
    strays.append(("client", segment("10.0.7.7", "192.0.2.10", 50000 + i, 80, rng.choice([ACK, RST, PSH | ACK]))))
    strays.append(("server", segment("192.0.2.10", "10.0.7.8", 80, 50000 + i, ACK)))
datagram = ipv4("10.0.0.1", "192.0.2.10", 17, udp("10.0.0.1", "192.0.2.10", 5353, 53, b"hello"))
strays += [("client", ethernet(OURS, "02:00:00:00:01:01", 0x0800, datagram))] * 20
strays += [("client", ethernet("ff:ff:ff:ff:ff:ff", "02:00:00:00:01:01", 0x0806, bytes(28)))] * 20
strays += [("client", frame) for frame in malformed(segment("10.0.0.1", "192.0.2.10", 1, 80, SYN))]
threads += [[stray] for stray in strays]

# Connections run side by side, each in its own order.
now = 1_000_000_000
while threads:
    thread = rng.choice(threads[:40])
    side, frame = thread.pop(0)
    if not thread:
        threads.remove(thread)
    now += rng.randrange(1_000, 50_000)
    capture = clients if side == "client" else servers
    capture.at(now)
    capture.add(frame, 0)
clients.write(__file__, "traffic.pcap")
servers.write(__file__, "traffic.1.pcap")

lines = ["# Made by traffic.py.", ""]
for number, (address, _) in enumerate(SERVICES):
    macs = ", ".join(f'"02:00:00:00:{number + 2:02x}:{i:02x}"' for i in range(1, 4 + number))
    macs += ", \"00:00:00:00:00:00\"" * (5 - number)
    lines += ["[[services]]", f'key = "{address}"', f'value = {{ gateway = "{OURS}", servers = {3 + number}, server = [{macs}] }}', ""]
lines += [
    "[[policy]]",
    'key = { src = "10.66.6.6", dst = "192.0.2.10", sport = 6666, dport = 80, protocol = 6 }',
    "value = { deny = 1 }",
    "",
]
(pathlib.Path(__file__).parent / "tables.toml").write_text("\n".join(lines))
