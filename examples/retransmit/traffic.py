"""Messages and late, lost and doubled acknowledgements, for retransmit; writes traffic.pcap
(port 0) and traffic.1.pcap."""

import pathlib
import random
import struct
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent))
from packets import Traffic, ethernet, message, sent  # noqa: E402

SLOTS, LOOKED_AT, TRIES, TIMEOUT = 64, 8, 4, 4_000_000
rng = random.Random(36)
traffic = Traffic(__file__)
kept = {}
first = 0


def repeat(now):
    """What a tick sends again, and what it gives up."""
    global first
    fates = []
    for slot in range(first, first + LOOKED_AT):
        if slot not in kept or now < kept[slot]["due"]:
            continue
        entry = kept[slot]
        if entry["tries"] < TRIES:
            fates.append(sent(1, entry["frame"]))
            entry["tries"] += 1
            entry["due"] = now + (TIMEOUT << entry["tries"])
        else:
            fates.append(message(struct.pack("<I", entry["number"])))
            del kept[slot]
    first = (first + LOOKED_AT) % SLOTS
    return "; ".join(fates) or "nothing"


traffic.every(250_000, repeat)


def ask(number, after):
    """A message of the sender."""
    body = struct.pack("!I", number) + rng.randbytes(42)
    frame = ethernet("02:00:00:00:00:02", "02:00:00:00:00:01", 0x88B5, body)

    def fate():
        slot = number % SLOTS
        if slot in kept:
            return "drop too many under way"
        due = traffic.now + TIMEOUT
        kept[slot] = {"frame": frame, "number": number, "tries": 0, "due": due}
        return sent(1, frame)

    traffic.add(frame, fate, 0, after)


def acknowledge(number, after):
    """The peer's answer, of a message that may be forgotten."""
    frame = ethernet(
        "02:00:00:00:00:01", "02:00:00:00:00:02", 0x88B6, struct.pack("!I", number) + bytes(42)
    )

    def fate():
        if kept.get(number % SLOTS, {}).get("number") == number:
            del kept[number % SLOTS]
        return "drop acknowledgement"

    traffic.add(frame, fate, 1, after)


waiting = []
for number in range(1200):
    ask(number, rng.randrange(1, 150_000))
    if rng.random() < 0.9:
        waiting.append(number)
    while waiting and rng.random() < 0.7:
        at = rng.randrange(len(waiting))
        acknowledge(waiting[at], rng.randrange(1, 300_000))
        if rng.random() < 0.9:
            waiting.pop(at)
for frame, port in ((bytes(59), 0), (bytes(60), 0), (bytes(60), 1)):
    reason = "too short" if len(frame) < 60 else "neither message nor acknowledgement"
    traffic.add(frame, f"drop {reason}", port, 1_000)
traffic.write()
