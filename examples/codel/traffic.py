"""Bursts, a sender that heeds drops and one that does not, for codel; writes traffic.pcap (port 0)
and traffic.1.pcap.

The queue here is written after the pseudo-code of RFC 8289, section 5.
"""

import collections
import math
import pathlib
import random
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent))
from packets import Traffic, ethernet, ipv4, pad, sent, udp  # noqa: E402

TARGET, INTERVAL, PLACES, LONGEST = 50_000, 1_000_000, 256, 1522
rng = random.Random(8289)
traffic = Traffic(__file__)


class Queue:
    """A queue of frames with the times at which they came."""

    def __init__(self):
        self.frames = collections.deque()
        self.first_above, self.drop_next = 0, 0
        self.count, self.last_count, self.dropping = 0, 0, False
        self.dropped = 0

    def enqueue(self, frame, now):
        if len(frame) > LONGEST or len(self.frames) == PLACES:
            self.dropped += 1
            return "drop no room"
        self.frames.append((frame, now))
        return "drop waits"

    def drop(self):
        self.frames.popleft()
        self.dropped += 1

    def ok_to_drop(self, now):
        if not self.frames or now - self.frames[0][1] < TARGET or len(self.frames) == 1:
            self.first_above = 0
            return False
        if self.first_above == 0:
            self.first_above = now + INTERVAL
        return now >= self.first_above

    def control_law(self, time):
        return time + INTERVAL * 16 // math.isqrt(self.count << 8)

    def dequeue(self, now):
        """One frame leaves a tick, and one is dropped at most."""
        ok = self.ok_to_drop(now)
        if self.dropping:
            if not ok:
                self.dropping = False
            elif now >= self.drop_next:
                self.drop()
                self.count += 1
                self.drop_next = self.control_law(self.drop_next)
                self.dropping = self.ok_to_drop(now)
        elif ok:
            self.drop()
            self.ok_to_drop(now)
            self.dropping = True
            delta = self.count - self.last_count
            again = delta > 1 and now - self.drop_next < 16 * INTERVAL
            self.count = delta if again else 1
            self.drop_next = self.control_law(now)
            self.last_count = self.count
        return sent(1, self.frames.popleft()[0]) if self.frames else "nothing"


queue = Queue()
traffic.every(12_000, queue.dequeue)


def frame(size):
    body = ipv4("10.2.0.1", "10.2.0.2", 17, udp("10.2.0.1", "10.2.0.2", 1, 2, rng.randbytes(size)))
    return pad(ethernet("02:00:00:00:00:02", "02:00:00:00:00:01", 0x0800, body))


def arrive(size, after):
    data = frame(size)
    traffic.add(data, lambda: queue.enqueue(data, traffic.now), 0, after)


def back():
    data = frame(9)
    traffic.add(data, sent(0, data), 1, 500)


# Bursts that the link has sent soon: nothing is dropped.
for _ in range(4):
    for _ in range(30):
        arrive(rng.randrange(18, 400), 300)
    back()
    traffic.now += 500_000
# A sender as TCP is: each round trip two frames more, half as many after a drop.
ROUND_TRIP, window, seen = 500_000, 30, 0
for _ in range(50):
    for _ in range(window):
        arrive(rng.randrange(18, 100), ROUND_TRIP // window)
    window = window // 2 if queue.dropped > seen else window + 2
    seen = queue.dropped
back()
# Senders that heed nothing: too much, less, and far too much.
for gap, frames in [(8_000, 500), (14_000, 100), (3_000, 400)]:
    for _ in range(frames):
        arrive(rng.randrange(18, 100), rng.randrange(gap // 2, gap * 3 // 2))
    back()
arrive(1600, 1_000)
# The queue runs empty; overload again.
traffic.now += 3_500_000
for _ in range(300):
    arrive(18, 9_000)
back()
traffic.write()
