"""nf_ticker: every tick once, in the order in which they are due, between frames and never late."""

import os
import random

import cocotb
from streams import Bench, Source, share

TIMERS, PERIODS = int(os.environ["TIMERS"]), int(os.environ["PERIODS"].split("d")[1])
EACH = [PERIODS >> 64 * number & (1 << 64) - 1 for number in range(TIMERS)]
TICK = 1 << 10


class Out:
    """Takes beats at random, with the time on the wires when they are taken. The module behind this
    one looks at a beat only when it takes it, so another one may come in the place of one that
    waits."""

    def __init__(self, dut):
        self.dut, self.stall = dut, 0.0
        self.clear()

    def clear(self):
        self.got, self.ready = [], False
        self.dut.m_axis_tready.value = 0

    def edge(self):
        dut = self.dut
        if self.ready and int(dut.m_axis_tvalid.value):
            user, last = int(dut.m_axis_tuser.value), int(dut.m_axis_tlast.value)
            self.got.append((user, last, int(dut.m_time.value), int(dut.time_ns.value)))
        self.ready = random.random() >= self.stall
        dut.m_axis_tready.value = int(self.ready)


class Clock:
    """Time, which goes on by some nanoseconds or stands still."""

    def __init__(self, dut):
        self.dut = dut
        self.clear()

    def clear(self):
        self.now = random.randrange(1 << 40)
        self.dut.time_ns.value = self.now

    def edge(self):
        self.now += random.choice([0, 1, 4, 4, 4, 60])
        self.dut.time_ns.value = self.now


def ticks_from(start):
    """Due times and numbers of all timers' ticks, without end."""
    due = [(start + period, number) for number, period in enumerate(EACH)]
    while True:
        first = min(due)
        yield first
        due[first[1]] = (first[0] + EACH[first[1]], first[1])


def check(got, sent):
    """How many ticks there were."""
    ticks, in_frame, passed = 0, False, []
    expected = due = number = None
    for user, last, time, now in got:
        if user & TICK:
            assert not in_frame and last
            assert (time, user) == (due, TICK | number) and now >= due
            ticks += 1
            due, number = next(expected)
            continue
        assert time == now
        if expected is None:
            expected = ticks_from(now)
            due, number = next(expected)
        assert in_frame or now < due, "a frame before a tick that was due"
        in_frame = not last
        passed.append((user, last))
    assert passed == [(user, last) for _, last, user in sent]
    return ticks


@cocotb.test()
async def ticks_come_between_frames(dut):
    b = Bench(dut)
    fields = [dut.s_axis_tkeep, dut.s_axis_tlast, dut.s_axis_tuser]
    source = b.add(Source(dut.s_axis_tvalid, dut.s_axis_tready, fields))
    out = b.add(Out(dut))
    b.add(Clock(dut))
    await b.start()
    for stall in (0.0, 0.3, 0.8):
        await b.reset()
        source.stall, out.stall = random.choice([0.0, 0.5]), stall
        for number in range(share(1200)):
            beats = random.choice([1, 1, 2, 5])
            user = number & 0xFF
            source.items += [((1 << 64) - 1, int(at == beats - 1), user) for at in range(beats)]
        wanted = list(source.items)
        while source.items:
            await b.run(1)
        await b.run(4)
        assert check(out.got, wanted) > 10
