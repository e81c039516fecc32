"""Hosts that join and leave groups, and a sender to them, for multicast; writes traffic.pcap (port 0)
and traffic.1.pcap."""

import pathlib
import random
import struct
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent))
from packets import Traffic, change, checksum, ethernet, ipv4, mac, malformed, pad, sent, udp  # noqa: E402

ROUTER, HOSTS, MOST = 0, 1, 4
rng = random.Random(9119)
traffic = Traffic(__file__)
members = {}


def mac_of(group):
    """The Ethernet address of a group (RFC 1112, 6.4)."""
    a, b, c = (int(part) for part in group.split(".")[1:])
    return f"01:00:5e:{a & 127:02x}:{b:02x}:{c:02x}"


def igmp(kind, group, host, options):
    """A message of a host's, which changes who is a member."""
    body = struct.pack("!BBH", kind, 0, 0) + bytes(int(part) for part in group.split("."))
    body = body[:2] + struct.pack("!H", checksum(body)) + body[4:]
    packet = ipv4(f"10.0.0.{host}", group, 2, body, ttl=1, options=options)
    address = f"02:00:00:00:00:{host:02x}"
    frame = pad(ethernet(mac_of(group), address, 0x0800, packet))
    traffic.add(frame, sent(ROUTER, frame), HOSTS)
    joined = members.setdefault(group, [])
    if kind == 0x16 and address not in joined and len(joined) < MOST:
        joined.append(address)
    elif kind == 0x17 and address in joined:
        # The last one takes its place.
        joined[joined.index(address)] = joined[-1]
        joined.pop()


def data(group):
    """A packet to a group: to each member, the first one last."""
    body = udp("10.9.0.1", group, 5004, 5004, rng.randbytes(rng.randrange(10, 300)))
    frame = pad(
        ethernet(mac_of(group), "02:00:00:00:00:99", 0x0800, ipv4("10.9.0.1", group, 17, body))
    )
    joined = members.get(group, [])
    copies = [sent(HOSTS, change(frame, 0, mac(host))) for host in joined[1:] + joined[:1]]
    traffic.add(frame, "; ".join(copies) or "drop no members", ROUTER)


groups = [f"239.1.{number}.{number + 1}" for number in range(12)]
# Router alert (RFC 2113), as hosts send it.
alert = b"\x94\x04\x00\x00"
for _ in range(2000):
    group = rng.choice(groups)
    if rng.random() < 0.3:
        kind = rng.choice([0x16, 0x16, 0x17, 0x11])
        igmp(kind, group, rng.randrange(1, 8), alert if rng.random() < 0.5 else b"")
    else:
        data(group)
for frame in malformed(ethernet(mac_of(groups[0]), mac_of(groups[1]), 0x0800, bytes(19))):
    traffic.add(frame, "drop not IPv4")
short = ipv4("10.0.0.1", groups[0], 2, b"\x16")
short = ethernet(mac_of(groups[0]), "02:00:00:00:00:01", 0x0800, short)
traffic.add(short, sent(ROUTER, short), HOSTS)
traffic.write()
