"""Requests to sixteen services and the hosts' word when one is done, for jsq_steering; writes
traffic.pcap and traffic.host.pcap.
"""

import pathlib
import random
import struct
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent))
from packets import Traffic, ethernet, host, ipv4, malformed, pad, udp  # noqa: E402

rng = random.Random(11)
traffic = Traffic(__file__)
SERVICES, CORES = 16, 32  # as in the program

outstanding = [[0] * CORES for _ in range(SERVICES)]


def request(frame):
    """Adds a frame; the core with the shortest queue should get it, the first of several."""
    service = frame[5] & 15
    load = outstanding[service]
    core = load.index(min(load))
    load[core] += 1
    traffic.add(
        frame, host(struct.pack("<II", core, service) + frame), after_ns=rng.randrange(200, 3_000)
    )


def done(service, core):
    """The host side says that a request is done."""
    if service < SERVICES and outstanding[service][core % CORES] > 0:
        outstanding[service][core % CORES] -= 1
    traffic.message(struct.pack("<II", service, core))


def frame_for(service):
    to = f"02:00:00:00:00:{rng.randrange(16) << 4 | service:02x}"
    datagram = udp(
        "10.0.0.1",
        "10.1.0.1",
        rng.randrange(1024, 65536),
        9000,
        rng.randbytes(rng.randrange(0, 60)),
    )
    return pad(
        ethernet(to, "02:00:00:00:01:01", 0x0800, ipv4("10.0.0.1", "10.1.0.1", 17, datagram))
    )


# Services of different popularity; cores finish in random order, so queues grow uneven.
for _i in range(2200):
    request(frame_for(min(int(rng.expovariate(0.4)), 15)))
    while rng.random() < 0.46:
        busy = [(s, c) for s in range(SERVICES) for c in range(CORES) if outstanding[s][c]]
        if busy:
            done(*rng.choice(busy))
# Nothing outstanding, no such service, and a core number with bits too many.
for service, core in [(15, 31), (16, 0), (0xFFFFFFFF, 5), (0, 32), (1, 0xFFFFFFE1)] * 3:
    done(service, core)
for frame in malformed(frame_for(0), 60):
    request(frame)
traffic.write()
