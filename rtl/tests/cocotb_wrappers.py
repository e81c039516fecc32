"""nf_mac_loopback and nf_corundum_app around a stand-in for a design: frames whole, in their place,
or counted as lost."""

import os
import random

import cocotb
from streams import STALLS, Bench, Sink, Source

TOP = os.environ["TOP"]
PORTS = 2


def frame(number, longest=24):
    """Words of a frame that begins with its kind (to the operating system or not) and carries its
    number in each."""
    length = random.choice([1, 1, 2, random.randint(1, longest)])
    kind = random.random() < 0.3
    return [
        (
            number << 32 | place << 16 | (int(kind) if place == 0 else 2),
            (1 << 64) - 1,
            int(place == length - 1),
        )
        for place in range(length)
    ]


def frames(words):
    """Numbers of whole frames; the words of a frame must be together and in order."""
    found, expected = [], None
    for data, _, last in words:
        number, place = data >> 32, data >> 16 & 0xFFFF
        assert (number, place) == expected or (expected is None and place == 0)
        expected = None if last else (number, place + 1)
        if last:
            found.append(number)
    assert expected is None
    return found


class Pulses:
    def __init__(self, signal):
        self.signal, self.count = signal, 0

    def edge(self):
        self.count += int(self.signal.value)

    def clear(self):
        self.count = 0


@cocotb.test(skip=TOP != "nf_mac_loopback")
async def a_storm_loses_whole_frames_and_counts_them(dut):
    b = Bench(dut)
    dut.rx_tuser.value = 0
    source = b.add(Source(dut.rx_tvalid, None, [dut.rx_tdata, dut.rx_tkeep, dut.rx_tlast]))
    sink = b.add(Sink(dut.tx_tvalid, dut.tx_tready, [dut.tx_tdata, dut.tx_tkeep, dut.tx_tlast]))
    dropped, not_sent = b.add(Pulses(dut.stat_rx_dropped)), b.add(Pulses(dut.stat_not_sent))
    await b.start()
    storms = 0
    for source.stall, sink.stall in STALLS:
        sink.got, dropped.count, not_sent.count = [], 0, 0
        sent, to_system = [], 0
        for number in range(150):
            words = frame(number)
            to_system += words[0][0] & 1
            sent.append(number)
            source.items += words
        await b.until(lambda: not source.items)
        sink.stall = 0.0
        await b.run(250)
        got = frames(sink.got)
        assert got == sorted(got) and set(got) <= set(sent)
        assert len(got) + dropped.count + not_sent.count == len(sent)
        assert dropped.count or not_sent.count == to_system
        storms += dropped.count > 0
    assert storms, "no storm filled the queue"


@cocotb.test(skip=TOP != "nf_corundum_app")
async def frames_go_where_they_belong(dut):
    """Both ports' frames come back on their port: to the MAC, or on into the NIC; the NIC's own go
    out between them."""
    b = Bench(dut)
    dut.s_axis_sync_rx_tuser.value = 0
    dut.ptp_ts.value = 0
    app = App(dut)
    b.add(app)
    await b.start()
    for stall_in, stall_out in STALLS:
        app.clear()
        wanted = {("tx", 0): [], ("tx", 1): [], ("rx", 0): [], ("rx", 1): []}
        from_nic = {0: [], 1: []}
        for port in range(PORTS):
            for number in range(40):
                words = frame(number, 6)
                app.send["rx", port] += words
                wanted["rx" if words[0][0] & 1 else "tx", port].append(number)
                own = frame(1000 + number, 3)
                app.send["tx", port] += own
                from_nic[port].append(1000 + number)
        app.stall_in, app.stall_out = stall_in, stall_out
        total = sum(len(words) for words in app.send.values())
        await b.until(
            lambda total=total: sum(len(words) for words in app.got.values()) == total, 20000
        )
        for port in range(PORTS):
            assert frames(app.got["rx", port]) == wanted["rx", port]
            out = frames(app.got["tx", port])
            assert [number for number in out if number < 1000] == wanted["tx", port]
            assert [number for number in out if number >= 1000] == from_nic[port]


class App:
    """All four streams in and out of the application block; vectors hold both ports."""

    def __init__(self, dut):
        self.dut, self.stall_in, self.stall_out = dut, 0.0, 0.0
        self.clear()
        for way in ("rx", "tx"):
            self.signal("s", way, "tvalid").value = 0
            self.signal("m", way, "tready").value = 0
        dut.m_axis_if_rx_tready.value = 1
        for name in ("awvalid", "wvalid", "arvalid", "bready", "rready"):
            getattr(dut, f"s_axil_app_ctrl_{name}").value = 0

    def signal(self, side, way, name):
        return getattr(self.dut, f"{side}_axis_sync_{way}_{name}")

    def clear(self):
        keys = [(way, port) for way in ("rx", "tx") for port in range(PORTS)]
        self.send, self.got = {key: [] for key in keys}, {key: [] for key in keys}
        self.offering, self.ready = dict.fromkeys(keys, False), dict.fromkeys(keys, False)

    def edge(self):
        for way in ("rx", "tx"):
            taken = int(self.signal("s", way, "tready").value)
            valid, last = (
                int(self.signal("m", way, "tvalid").value),
                int(self.signal("m", way, "tlast").value),
            )
            data, keep = (
                int(self.signal("m", way, name).value) if valid else 0
                for name in ("tdata", "tkeep")
            )
            drive = dict.fromkeys(("tdata", "tkeep", "tlast", "tvalid", "tready"), 0)
            for port in range(PORTS):
                key = way, port
                if valid & self.ready[key] << port:
                    word = data >> 512 * port & ((1 << 512) - 1)
                    self.got[key].append(
                        (word, keep >> 64 * port & ((1 << 64) - 1), last >> port & 1)
                    )
                if self.offering[key] and taken >> port & 1:
                    self.send[key].pop(0)
                    self.offering[key] = False
                if not self.offering[key] and self.send[key]:
                    self.offering[key] = random.random() >= self.stall_in
                if self.offering[key]:
                    word, kept, end = self.send[key][0]
                    drive["tdata"] |= word << 512 * port
                    drive["tkeep"] |= kept << 64 * port
                    drive["tlast"] |= end << port
                    drive["tvalid"] |= 1 << port
                self.ready[key] = random.random() >= self.stall_out
                drive["tready"] |= self.ready[key] << port
            for name in ("tdata", "tkeep", "tlast", "tvalid"):
                self.signal("s", way, name).value = drive[name]
            self.signal("m", way, "tready").value = drive["tready"]
