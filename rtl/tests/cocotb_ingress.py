"""nf_ingress: frames into slots and descriptors, bad ones dropped and counted; stalls, no room,
resets in mid-frame."""

import os
import random
from collections import deque

import cocotb
from streams import STALLS, Bench, Sink, Source

SLOTS, LINES, WINDOW, LOSSY = (
    int(os.environ[name]) for name in ("SLOTS", "ROWS", "WIN_LINES", "DROP_WHEN_FULL")
)
SHORTEST, LONGEST = int(os.environ["MIN_BYTES"]), int(os.environ["MAX_BYTES"])
COUNTERS = ["n_frames", "n_bad", "n_short", "n_long", "n_full"]


class Slots:
    """Free slots; the test gives them back."""

    def __init__(self, dut):
        self.dut = dut
        self.clear()

    def clear(self):
        self.free = deque(range(SLOTS))
        self.show()

    def show(self):
        self.dut.f_valid.value = int(bool(self.free))
        self.dut.f_slot.value = self.free[0] if self.free else 0

    def edge(self):
        if int(self.dut.f_take.value):
            self.free.popleft()
        self.show()


class Memory:
    """The packet buffer, whose port others take now and then."""

    def __init__(self, dut):
        self.dut, self.lines, self.stall = dut, {}, 0.0
        self.clear()

    def clear(self):
        self.dut.w_stall.value = 0
        self.stalled = False

    def edge(self):
        if int(self.dut.w_en.value):
            assert not self.stalled, "a line was written while somebody else has the port"
            self.lines[int(self.dut.w_addr.value)] = int(self.dut.w_data.value).to_bytes(
                64, "little"
            )
        self.stalled = random.random() < self.stall
        self.dut.w_stall.value = int(self.stalled)


class Clock:
    """Time and seed, other ones in every cycle; remembers those at every beat that was taken."""

    def __init__(self, dut, source):
        self.dut, self.source, self.now = dut, source, 1
        self.clear()

    def clear(self):
        self.at = []

    def edge(self):
        self.at += [self.now] * (len(self.source.taken) - len(self.at))
        self.now += 1
        self.dut.time_ns.value, self.dut.seed.value = self.now, 3 * self.now


class Frame:
    def __init__(self, length=None, bad=None):
        limits = [
            1,
            SHORTEST - 1,
            SHORTEST,
            64,
            65,
            128,
            LONGEST - 1,
            LONGEST,
            LONGEST + 1,
            64 * LINES,
            64 * LINES + 1,
        ]
        self.bytes = random.randbytes(
            length or random.choice([*limits, random.randint(1, LONGEST), 80 * LINES])
        )
        self.host = int(length is None and random.random() < 0.2)
        self.port = random.randrange(256)
        self.bad = random.random() < 0.15 if bad is None else bad
        self.fate = "n_frames"
        if self.bad:
            self.fate = "n_bad"
        elif len(self.bytes) > LONGEST:
            self.fate = "n_long"
        elif len(self.bytes) < SHORTEST and not self.host:
            self.fate = "n_short"

    def begins(self, descriptor):
        """Whether a descriptor has this frame's length and first bytes."""
        known = min(len(self.bytes), 64 * WINDOW)
        return (descriptor[1], descriptor[6].to_bytes(64 * WINDOW, "little")[:known]) == (
            len(self.bytes),
            self.bytes[:known],
        )

    def beats(self):
        for at in range(0, len(self.bytes), 64):
            part = self.bytes[at : at + 64]
            last = at + 64 >= len(self.bytes)
            user = self.port | self.host << 9 | int(self.bad and last) << 8
            yield int.from_bytes(part, "little"), (1 << len(part)) - 1, int(last), user


async def bench(dut):
    b = Bench(dut)
    fields = [dut.s_axis_tdata, dut.s_axis_tkeep, dut.s_axis_tlast, dut.s_axis_tuser]
    b.source = b.add(Source(dut.s_axis_tvalid, dut.s_axis_tready, fields))
    names = ["d_slot", "d_length", "d_port", "d_host", "d_time", "d_seed", "d_window"]
    b.sink = b.add(Sink(dut.d_valid, dut.d_take, [getattr(dut, name) for name in names]))
    b.slots, b.memory, b.clock = b.add(Slots(dut)), b.add(Memory(dut)), b.add(Clock(dut, b.source))
    return await b.start()


def counters(dut):
    return {name: int(getattr(dut, name).value) for name in COUNTERS}


def offer(b, frames):
    b.source.items += [beat for frame in frames for beat in frame.beats()]


def check(b, frame, descriptor, time=None):
    """A descriptor is this frame's; its slot is given back."""
    slot, length, port, host, at, seed, _ = descriptor
    assert (length, port, host) == (len(frame.bytes), frame.port, frame.host)
    assert time in (None, at) and seed == 3 * at
    lines = b"".join(b.memory.lines[slot * LINES + line] for line in range((length + 63) // 64))
    assert lines[:length] == frame.bytes
    assert frame.begins(descriptor)
    b.slots.free.append(slot)


@cocotb.test()
async def frames_whole_in_order_or_counted(dut):
    b = await bench(dut)
    wanted = dict.fromkeys(COUNTERS, 0)
    for b.source.stall, b.sink.stall in STALLS:
        b.memory.stall = random.choice([0.0, 0.3])
        frames = [Frame() for _ in range(60)]
        b.clock.at, b.source.taken = [], []
        offer(b, frames)
        done = 0
        starts, beats = [], 0
        for frame in frames:
            starts.append(beats)
            beats += (len(frame.bytes) + 63) // 64
            wanted[frame.fate] += frame.fate != "n_frames" and not LOSSY
        good = [at for at, frame in enumerate(frames) if frame.fate == "n_frames"]
        seen = 0
        # Slots come back late now and then.
        for _ in range(20000):
            await b.run(1)
            while b.sink.got and random.random() < 0.5:
                descriptor = b.sink.got.pop(0)
                if LOSSY:
                    # Frames without a slot are missing.
                    while not frames[good[seen]].begins(descriptor):
                        seen += 1
                at = good[seen]
                check(b, frames[at], descriptor, b.clock.at[starts[at]])
                seen += 1
                done += 1
            if not b.source.items and not b.sink.got and not int(dut.d_valid.value):
                break
        await b.run(1)
        if LOSSY:
            wanted["n_frames"] += done
        else:
            assert done == len(good)
            wanted["n_frames"] += len(good)
            assert counters(dut) == wanted
    total = counters(dut)
    assert sum(total.values()) == 60 * len(STALLS) and total["n_frames"] == wanted["n_frames"]
    assert (total["n_full"] > 0) == bool(LOSSY)


@cocotb.test()
async def without_slots(dut):
    """The stream waits, or whole frames are lost and counted, the ones in the middle of which slots
    come back too."""
    b = await bench(dut)
    frames = [Frame(100, bad=False) for _ in range(SLOTS + 4)]
    offer(b, frames)
    await b.run(6 * SLOTS + 30)
    assert len(b.sink.got) == SLOTS
    if not LOSSY:
        assert len(b.source.taken) == 2 * SLOTS and counters(dut)["n_full"] == 0
        check(b, frames[0], b.sink.got.pop(0))
        await b.run(20)
        assert len(b.source.taken) == 2 * SLOTS + 2
        return
    assert not b.source.items and counters(dut)["n_full"] == 4
    offer(b, [Frame(150, bad=False)])
    await b.until(lambda: len(b.source.taken) % 2 == 1)
    check(b, frames[0], b.sink.got.pop(0))
    await b.run(20)
    assert counters(dut)["n_full"] == 5 and len(b.sink.got) == SLOTS - 1
    last = Frame(90, bad=False)
    offer(b, [last])
    await b.run(20)
    check(b, last, b.sink.got.pop())


@cocotb.test()
async def a_small_frame_each_cycle(dut):
    """A descriptor is offered the cycle after the last beat."""
    b = await bench(dut)
    await b.run(3)
    frames = [Frame(60, bad=False) for _ in range(100)]
    offer(b, frames)
    cycles = 0
    while frames:
        await b.run(1)
        cycles += 1
        for descriptor in b.sink.got:
            check(b, frames.pop(0), descriptor)
        b.sink.got = []
        assert cycles <= 105, f"{len(frames)} of 100 frames are left"


@cocotb.test()
async def reset_in_mid_frame(dut):
    b = await bench(dut)
    for _ in range(4):
        b.sink.stall = 1.0
        offer(b, [Frame(100, bad=False), Frame(120, bad=True), Frame(LONGEST, bad=False)])
        taken = len(b.source.taken)
        await b.until(lambda taken=taken: len(b.source.taken) == taken + 5)
        await b.reset()
        b.sink.stall = 0.0
        assert counters(dut) == dict.fromkeys(COUNTERS, 0)
        frames = [Frame(length, bad=False) for length in (60, LONGEST, 64)]
        offer(b, frames)
        await b.until(lambda: len(b.sink.got) == 3)
        for frame in frames:
            check(b, frame, b.sink.got.pop(0))
        assert counters(dut)["n_frames"] == 3
