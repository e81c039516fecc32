"""nf_mac_loopback around a generated l2_forward: frames come back with addresses swapped, or are
lost whole and counted."""

import random

import cocotb
from streams import Bench, Sink, Source


def beats(frame, bad):
    """Words, with what is kept of each, the end, and the MAC's mark."""
    for at in range(0, len(frame), 64):
        part = frame[at : at + 64]
        last = at + 64 >= len(frame)
        yield int.from_bytes(part, "little"), (1 << len(part)) - 1, int(last), int(bad and last)


def frames(words):
    found, now = [], b""
    for data, keep, last in words:
        now += data.to_bytes(64, "little")[: keep.bit_count()]
        if last:
            found.append(now)
            now = b""
    assert not now
    return found


class Pulses:
    def __init__(self, signal):
        self.signal, self.count = signal, 0

    def edge(self):
        self.count += int(self.signal.value)

    def clear(self):
        self.count = 0


@cocotb.test()
async def frames_come_back(dut):
    b = Bench(dut)
    source = b.add(
        Source(dut.rx_tvalid, None, [dut.rx_tdata, dut.rx_tkeep, dut.rx_tlast, dut.rx_tuser])
    )
    sink = b.add(Sink(dut.tx_tvalid, dut.tx_tready, [dut.tx_tdata, dut.tx_tkeep, dut.tx_tlast]))
    dropped = b.add(Pulses(dut.stat_rx_dropped))
    await b.start()
    await b.run(10)
    storms = 0
    for source.stall, sink.stall in ((0.3, 0.0), (0.0, 0.0), (0.0, 0.6), (0.0, 0.9)):
        dropped.count, sink.got, wanted, bad = 0, [], [], 0
        for _ in range(80):
            frame = random.randbytes(random.choice([60, 60, 64, 65, 200, 1518]))
            marked = random.random() < 0.1
            source.items += beats(frame, marked)
            bad += marked
            if not marked:
                wanted.append(frame[6:12] + frame[:6] + frame[12:])
        sent = len(wanted)
        await b.until(lambda: not source.items)
        sink.stall = 0.0
        await b.run(1200)
        got, at = frames(sink.got), 0
        for frame in got:
            # In order, and none twice.
            at = wanted.index(frame, at) + 1
        lost = sent - len(got)
        # Of the lost ones some were marked as bad besides.
        assert lost <= dropped.count <= lost + bad
        storms += lost > 0
    assert storms and len(got) > 30
