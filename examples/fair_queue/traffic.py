"""Tenants that send more than their share of a slow link, for fair_queue; writes traffic.pcap
(port 0), traffic.1.pcap and tables.toml."""

import pathlib
import random
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent))
from packets import Traffic, ethernet, ipv4, pad, sent, udp, vlan  # noqa: E402

LONGEST, UNITS, PLACES = 1522, 1024, 256
WEIGHTS = {10: 1, 20: 2, 30: 5, 40: 8}
rng = random.Random(64)
traffic = Traffic(__file__)
finish = dict.fromkeys(WEIGHTS, 0)
waiting, turn, following = {}, 0, 0


def serve(_now):
    """The frame whose turn is first."""
    global turn
    if not waiting:
        return "nothing"
    number = min(waiting, key=lambda number: (waiting[number][0], number.to_bytes(4, "little")))
    turn, frame = waiting.pop(number)
    return sent(1, frame)


traffic.every(12_000, serve)


def tenant(number, size, after):
    """A frame of a tenant, and whether it waits."""
    body = udp(f"10.0.{number}.1", "10.1.0.1", 5000, 53, rng.randbytes(size))
    body = vlan(number, 0x0800, ipv4(f"10.0.{number}.1", "10.1.0.1", 17, body))
    frame = pad(ethernet("02:00:00:00:00:02", "02:00:00:00:00:01", 0x8100, body))

    def fate():
        global following
        if number not in WEIGHTS:
            return "drop no tenant"
        weight = WEIGHTS[number]
        start = max(finish[number], turn)
        ahead = start > turn + 24 * LONGEST * UNITS // weight
        if len(frame) > LONGEST or ahead or len(waiting) == PLACES:
            return "drop no room"
        finish[number] = start + len(frame) * UNITS // weight
        waiting[following] = (finish[number], frame)
        following += 1
        return "drop waits"

    traffic.add(frame, fate, 0, after)


def plain(side):
    """A frame that does not wait."""
    body = ipv4("10.2.0.1", "10.2.0.2", 17, udp("10.2.0.1", "10.2.0.2", 1, 2, rng.randbytes(9)))
    frame = pad(ethernet("02:00:00:00:00:02", "02:00:00:00:00:01", 0x0800, body))
    traffic.add(frame, sent(1 - side, frame), side, rng.randrange(1, 5_000))


# All at once, each more than the link takes; then the lightest alone; then a pause.
for _ in range(3):
    for _ in range(600):
        tenant(
            rng.choice([*WEIGHTS, *WEIGHTS, 50]), rng.randrange(40, 1470), rng.randrange(1, 8_000)
        )
        if rng.randrange(20) == 0:
            plain(rng.randrange(2))
    for _ in range(80):
        tenant(10, rng.choice([100, 1470, 1600]), rng.randrange(1, 20_000))
    for side in (0, 1, 0):
        plain(side)
    traffic.now += 2_500_000
traffic.tables({"tenants": [(number, {"weight": w, "finish": 0}) for number, w in WEIGHTS.items()]})
traffic.write()
