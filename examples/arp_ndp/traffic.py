"""Questions for neighbours that are known and others, for arp_ndp; writes traffic.pcap and
tables.toml."""

import pathlib
import random
import socket
import struct
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent))
from packets import Traffic, checksum, ethernet, ipv6, mac, malformed, pad, sent  # noqa: E402

rng = random.Random(826)
traffic = Traffic(__file__)
hosts = {f"10.0.0.{n}": f"02:00:00:00:01:{n:02x}" for n in range(1, 41)}
hosts6 = {f"2001:db8::{n:x}": f"02:00:00:00:02:{n:02x}" for n in range(1, 41)}
traffic.tables({"hosts": list(hosts.items()), "hosts6": list(hosts6.items())})


def arp(operation, sender_mac, sender, target_mac, target):
    head = struct.pack("!HHBBH", 1, 0x0800, 6, 4, operation)
    sender, target = socket.inet_aton(sender), socket.inet_aton(target)
    return head + mac(sender_mac) + sender + mac(target_mac) + target


def ask_arp(own, address, target, operation=1):
    body = arp(operation, own, address, "00:00:00:00:00:00", target)
    frame = pad(ethernet("ff:ff:ff:ff:ff:ff", own, 0x0806, body))
    fate = "stack"
    if operation == 1 and target in hosts:
        answer = arp(2, hosts[target], target, own, address)
        fate = sent(0, pad(ethernet(own, hosts[target], 0x0806, answer)))
    traffic.add(frame, fate)


def icmpv6(src, dst, body):
    """A message with its checksum (RFC 4443, 2.3)."""
    pseudo = socket.inet_pton(socket.AF_INET6, src) + socket.inet_pton(socket.AF_INET6, dst)
    total = checksum(pseudo + struct.pack("!II", len(body), 58) + body)
    return ipv6(src, dst, 58, body[:2] + struct.pack("!H", total) + body[4:], hop_limit=255)


def ask_ndp(own, address, target, hop_limit=255):
    packed = socket.inet_pton(socket.AF_INET6, target)
    group = "ff02::1:ff" + packed[-3:].hex()[:2] + ":" + packed[-3:].hex()[2:]
    body = struct.pack("!BBHI", 135, 0, 0, 0) + packed
    if address != "::":
        body += struct.pack("!BB", 1, 1) + mac(own)
    packet = icmpv6(address, group, body)
    packet = packet[:7] + bytes([hop_limit]) + packet[8:]
    frame = ethernet("33:33:ff" + packed[-3:].hex(":", 1).join([":", ""]), own, 0x86DD, packet)
    fate = "stack"
    if target in hosts6 and hop_limit == 255 and address != "::":
        body = struct.pack("!BBHI", 136, 0, 0, 0x60000000) + packed
        body += struct.pack("!BB", 2, 1) + mac(hosts6[target])
        answer = icmpv6(target, address, body)
        fate = sent(0, ethernet(own, hosts6[target], 0x86DD, answer))
    traffic.add(frame, fate)


for _ in range(1000):
    own = f"02:00:00:00:00:{rng.randrange(1, 200):02x}"
    ask_arp(own, "10.0.0.77", f"10.0.0.{rng.randrange(1, 60)}", 1 if rng.random() < 0.9 else 2)
    address = "::" if rng.random() < 0.1 else "fe80::77"
    ask_ndp(own, address, f"2001:db8::{rng.randrange(1, 60):x}", 255 if rng.random() < 0.9 else 64)
for kind, body in [(0x0806, arp(1, own, "10.0.0.7", own, "10.0.0.1")), (0x86DD, bytes(63))]:
    for frame in malformed(ethernet("ff:ff:ff:ff:ff:ff", own, kind, body)):
        traffic.add(frame, "stack")
traffic.write()
