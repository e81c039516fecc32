"""Requests and random bytes over TCP and UDP, for regex_filter; writes traffic.pcap and
traffic.1.pcap."""

import pathlib
import random
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent))
from packets import ACK, Traffic, ethernet, ipv4, malformed, pad, sent, tcp, udp  # noqa: E402

RULES = [
    re.compile(rule)
    for rule in (
        rb"^(GET|POST) /admin[/ ]",
        rb"(?i)cmd[.]exe",
        rb"\x90{16}",
        rb"(?i)union\s+select",
    )
]
COUNTED = 4
WORDS = [
    b"GET /admin",
    b"POST /admin/",
    b"/",
    b" ",
    b"cmd",
    b".exe",
    b"CMD.EXE",
    b"union",
    b"SELECT",
]
MACS = "02:00:00:00:00:02", "02:00:00:00:00:01"
rng = random.Random(7)
traffic = Traffic(__file__)


def matched(payload):
    """The rule whose match ends first, from 1; 0 if none does."""
    for end in range(len(payload) + 1):
        for number, rule in enumerate(RULES, 1):
            if rule.search(payload, 0, end):
                return number
    return 0


def content():
    """A payload: words in any order, a request, or bytes."""
    match rng.randrange(5):
        case 0:
            return b"".join(rng.choice(WORDS) for _ in range(rng.randrange(1, 8)))
        case 1:
            path = rng.choice([b"admin", b"admin/x", b"administrator", b"index.html"])
            return b"%s /%s HTTP/1.1\r\n" % (rng.choice([b"GET", b"POST", b"PUT"]), path)
        case 2:
            sled = b"\x90" * rng.randrange(12, 20)
            return rng.randbytes(rng.randrange(20)) + sled + rng.randbytes(9)
        case 3:
            return b"id=1 " + rng.choice([b"UNION  SELECT", b"union\tselect", b"unionselect"])
        case _:
            return rng.randbytes(rng.randrange(0, 200))


for _ in range(2000):
    side, payload = rng.randrange(2), content()
    src, dst = f"10.0.0.{rng.randrange(1, 20)}", f"10.1.0.{rng.randrange(1, 20)}"
    options = b"\1" * rng.choice([0, 0, 0, 12])
    if rng.randrange(2):
        protocol, body = 17, udp(src, dst, 5000, 80, payload)
    else:
        protocol, body = 6, tcp(src, dst, 5000, 80, ACK, payload=payload, options=options)
    packet = ipv4(src, dst, protocol, body, options=b"\1" * rng.choice([0, 0, 0, 4]))
    frame = pad(ethernet(*MACS, 0x0800, packet))
    rule = matched(payload)
    drops = rule not in (0, COUNTED)
    traffic.add(frame, "drop matches a rule" if drops else sent(1 - side, frame), side)
for frame in malformed(pad(ethernet(*MACS, 0x0800, ipv4("10.0.0.1", "10.1.0.1", 6, b"")))[:40]):
    traffic.add(frame, sent(1, frame))
arp = ethernet("ff:ff:ff:ff:ff:ff", MACS[1], 0x0806, bytes(46))
for _ in range(4):
    traffic.add(arp, sent(1, arp))
traffic.write()
