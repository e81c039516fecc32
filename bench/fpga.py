#!/usr/bin/env python3
"""Bars of the FPGA target: packets through generated designs, in simulated cycles, and area, with
published figures beside.

    bench/fpga.py [--nicforge PATH] [--packets N] [--json]

Cycles are exact: the design is simulated with streams that never wait, so results are the same on
every machine. A packet of 64 bytes (60 and the checksum) takes 6.72 ns of 100 Gbit/s Ethernet, 1.68
cycles at 250 MHz. Only the simulator's own speed is time, that of the processor. Area is that of
docs/validation/fpga_yosys.csv, where yosys has been run. Published: Ringleader (NSDI'23) and the
generated design of Alkali (NSDI'25, section 6) for join-shortest-queue steering, HAL (ISCA'24) for
the load balancer.
"""

import argparse
import csv
import json
import random
import resource
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CLOCK = 250e6
PROGRAMS = ["l2_forward", "firewall", "nat", "conn_limiter", "jsq_steering"]
# Programs that are no bar: their examples' own traffic, whose packets have several beats.
OWN_TRAFFIC = [
    "quic_lb",
    "vxlan_gw",
    "flow_stats",
    "l4lb",
    "dns_cache",
    "kv_cache",
    "tcp_rx_offload",
    "rpc_reassembly",
]
# Programs in which the next packet of the same entry waits. Packets of 64 bytes show it of which
# nothing comes but they: of flows that nobody opened, and segments out of order.
MEETING = ["tcp_rx_offload", "rpc_reassembly"]
# Published: Gbit/s by size of packets, and what else. Other programs are to keep up with the line.
PUBLISHED = {"jsq_steering": ({64: 64, 128: 100}, "64 ns Ringleader, 84 ns generated; 10,000 LUTs")}
# Least packets a second and core of the simulator, with l2_forward.
LEAST_SIMULATED = 100_000
# The load balancer: what, our column of the CSV file, the bar, what was published.
BALANCER = [
    ("LUT cells", "lut_cells", "under 2,000", "13,861 with its queues"),
    ("LUT sites, packed", "lut_sites", "-", "-"),
    ("block memories", "half_brams", "-", "-"),
    ("levels of logic", "depth", "6 to 7 for 322 MHz", "-"),
]


def checksum(data):
    total = sum(struct.unpack(f">{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return 0xFFFF ^ total


def frame(size, flow):
    """A UDP packet from inside to outside, of `size` bytes with the checksum of the Ethernet
    frame."""
    length = size - 4 - 14
    source, destination = 0x0A000000 | flow & 0xFFFF, 0xC6336407
    header = struct.pack(">BBHHHBBHII", 0x45, 0, length, 0, 0x4000, 64, 17, 0, source, destination)
    header = header[:10] + struct.pack(">H", checksum(header)) + header[12:]
    udp = struct.pack(">HHHH", 1024 + (flow >> 16 & 0x3FFF), 53, length - 20, 0)
    return bytes([2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0]) + header + udp + bytes(length - 28)


def segment(flow):
    """A TCP segment of 64 bytes."""
    data = frame(64, flow)
    tcp = struct.pack(">HHIIBBHHH", 1024 + (flow >> 16 & 0x3FFF), 80, 1, 1, 5 << 4, 16, 1000, 0, 0)
    ip = bytearray(data[14:34])
    ip[9], ip[10:12] = 6, bytes(2)
    ip[10:12] = struct.pack(">H", checksum(bytes(ip)))
    return data[:14] + bytes(ip) + tcp + bytes(6)


def call(channel):
    """A segment of two bytes of an RPC's message, 64 bytes, that another one should have come
    before."""
    data = frame(64, 7)
    return data[:34] + struct.pack(">HHHHIIIIH", 1024, 7000, 26, 0, channel, 1, 2, 100, 0)


def capture(path, frames):
    with open(path, "wb") as out:
        out.write(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1))
        for number, data in enumerate(frames):
            out.write(struct.pack("<IIII", 1, number, len(data), len(data)) + data)


def run(nicforge, program, frames=None):
    """A run with these frames, or with the example's own traffic."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "frames.pcap"
        source = ROOT / "examples" / program / f"{program}.c"
        command = [nicforge, "run", source, "--target", "u280", "--json"]
        if frames is not None:
            capture(path, frames)
            command += ["--pcap", path]
        done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"error: {program}: {done.stderr.strip()}")
    return json.loads(done.stdout)


def areas():
    with open(ROOT / "docs" / "validation" / "fpga_yosys.csv") as table:
        return {row["program"]: row for row in csv.DictReader(table)}


def measure(nicforge, program, size, traffic, packets):
    """One row: cycles and what follows from them."""
    flows = [random.getrandbits(30) if traffic == "random flows" else 7 for _ in range(packets)]
    frames = [frame(size, flow) for flow in flows]
    if program == "jsq_steering":
        # Packets for one service are one flow: its number is the destination's last four bits.
        frames = [
            data[:5] + bytes([flow & 15]) + data[6:]
            for data, flow in zip(frames, flows, strict=True)
        ]
    result = run(nicforge, program, frames)
    cycles = result["cycles_per_event"]
    # On the wire preamble and gap count.
    bits = (size + 20) * 8
    return {
        **{
            "program": program,
            "traffic": traffic,
            "bytes": size,
            "cycles": cycles,
            "mpps": CLOCK / cycles / 1e6,
        },
        **{"gbps": bits * CLOCK / cycles / 1e9, "line_rate": cycles <= bits / 100e9 * CLOCK},
        "latency_ns": result["latency_cycles"]["least"] * 4,
    }


def met(nicforge, program, traffic, packets):
    """Cycles of a packet of 64 bytes, of any flows and of one."""
    flows = [random.getrandbits(30) if traffic == "random flows" else 7 for _ in range(packets)]
    frames = [{"tcp_rx_offload": segment, "rpc_reassembly": call}[program](flow) for flow in flows]
    # The last one leaves, which is when the others are done.
    result = run(nicforge, program, [*frames, frame(64, 7)])
    cycles = result["cycles_per_event"]
    return {
        "program": program,
        "traffic": traffic,
        "bytes": 64,
        "cycles": cycles,
        "mpps": CLOCK / cycles / 1e6,
    }


def own(nicforge, program):
    """Cycles of a packet of the example's own traffic, and the beats of 64 bytes that it takes on
    the way in and out."""
    result = run(nicforge, program)
    events = result["events"]
    beats = {f"beats_{way}": result["beats"][way] / events for way in ("in", "out")}
    return {
        "program": program,
        "cycles": result["cycles_per_event"],
        **beats,
        "waits_in": result["waits"]["in"],
    }


def simulated(nicforge, packets=100_000):
    """Packets of l2_forward a second of the processor, without what starts and ends a run."""

    def seconds(count):
        frames = [frame(64, 7)] * count
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        run(nicforge, "l2_forward", frames)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    seconds(1)
    return packets / max(seconds(packets) - seconds(1), 1e-9)


def show(rows, meeting, own_traffic, known, speed):
    print(
        "program       traffic           cycles  Mpps   Gbit/s  line rate  latency  LUTs (yosys)  published"
    )
    for row in rows:
        rates, more = PUBLISHED.get(row["program"], ({}, ""))
        area = known.get(row["program"])
        luts = str(int(area["lut_sites"]) + int(area["lut_memory"])) if area else "-"
        rate = rates.get(row["bytes"])
        beside = (
            f"{rate} Gbit/s ({'met' if row['gbps'] >= rate else 'missed'}); {more}" if rate else "-"
        )
        print(
            f"{row['program']:13} {row['traffic']:13}{row['bytes']:4}  {row['cycles']:6.2f}  {row['mpps']:5.1f}  "
            f"{row['gbps']:6.1f}  {'met' if row['line_rate'] else 'missed':9}  {row['latency_ns']:4} ns  {luts:>12}  {beside}"
        )
    print("\nentries that wait           cycles  Mpps")
    for row in meeting:
        print(f"{row['program']:14} {row['traffic']:12} {row['cycles']:6.2f}  {row['mpps']:5.1f}")
    print("\nown traffic   cycles  beats in  beats out  cycles the stream in waits  LUTs (yosys)")
    for row in own_traffic:
        area = known.get(row["program"])
        luts = str(int(area["lut_sites"]) + int(area["lut_memory"])) if area else "-"
        beats = f"{row['beats_in']:8.2f}  {row['beats_out']:9.2f}"
        print(
            f"{row['program']:13} {row['cycles']:6.2f}  {beats}  {row['waits_in']:26}  {luts:>12}"
        )
    print(
        f"\nsimulator: {speed:,.0f} packets of l2_forward a second of one core; bar: {LEAST_SIMULATED:,}"
    )
    balancer = known.get("nf_balance")
    if balancer:
        print("\nload balancer (yosys)  ours    bar                 published")
        for what, column, bar, published in BALANCER:
            value = int(balancer[column]) / 2 if column == "half_brams" else int(balancer[column])
            print(f"{what:21} {value:>6,g}  {bar:18}  {published}")


def main():
    parser = argparse.ArgumentParser(description="Bars of the FPGA target")
    parser.add_argument("--nicforge", default=ROOT / "target" / "release" / "nicforge")
    parser.add_argument("--packets", type=int, default=2000)
    parser.add_argument("--json", action="store_true", help="print the rows as JSON")
    arguments = parser.parse_args()
    random.seed(1)
    cases = ((64, "random flows"), (64, "one flow"), (128, "random flows"))
    rows = [
        measure(arguments.nicforge, program, size, traffic, arguments.packets)
        for program in PROGRAMS
        for size, traffic in cases
    ]
    meeting = [
        met(arguments.nicforge, program, traffic, arguments.packets)
        for program in MEETING
        for traffic in ("random flows", "one flow")
    ]
    own_traffic = [own(arguments.nicforge, program) for program in OWN_TRAFFIC]
    known, speed = areas(), simulated(arguments.nicforge)
    if arguments.json:
        found = {
            "schema": "nicforge/bench-fpga",
            "version": 1,
            "rows": rows,
            "meeting": meeting,
            "own_traffic": own_traffic,
            "area": known,
            "simulated_pps": speed,
        }
        print(json.dumps(found, indent=1))
    else:
        show(rows, meeting, own_traffic, known, speed)


if __name__ == "__main__":
    main()
