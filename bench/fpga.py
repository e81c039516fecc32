#!/usr/bin/env python3
"""Bars of the FPGA target: packets of 64 bytes through generated designs, in simulated cycles, with published figures beside.

    bench/fpga.py [--nicforge PATH] [--packets N]

Cycles are exact: the design is simulated with streams that never wait, so results are the same on every machine. A packet of
64 bytes (60 and the checksum) takes 6.72 ns of 100 Gbit/s Ethernet, 1.68 cycles at 250 MHz.
Area is that of docs/validation/fpga_yosys.csv, where yosys has been run.
Published, for join-shortest-queue steering: Ringleader (NSDI'23) and the generated design of Alkali (NSDI'25, section 6).
"""

import argparse
import csv
import json
import random
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LINE_RATE = 1.68  # cycles of a 64-byte packet at 100 Gbit/s and 250 MHz
CLOCK = 250e6
PROGRAMS = ["l2_forward", "firewall", "nat", "conn_limiter", "jsq_steering"]
PUBLISHED = {
    "jsq_steering": "64 Gbit/s at 64 B, 100 at 128 B; 84 ns generated, 64 ns Ringleader; 10,000 LUTs wanted",
}


def checksum(data):
    total = sum(struct.unpack(f">{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return 0xFFFF ^ total


def frame(size, flow):
    """A UDP packet from inside to outside, of `size` bytes with the checksum of the Ethernet frame."""
    length = size - 4 - 14
    source, destination = 0x0A000000 | flow & 0xFFFF, 0xC6336407
    header = struct.pack(">BBHHHBBHII", 0x45, 0, length, 0, 0x4000, 64, 17, 0, source, destination)
    header = header[:10] + struct.pack(">H", checksum(header)) + header[12:]
    udp = struct.pack(">HHHH", 1024 + (flow >> 16 & 0x3FFF), 53, length - 20, 0)
    return bytes([2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0]) + header + udp + bytes(length - 28)


def capture(path, frames):
    with open(path, "wb") as out:
        out.write(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1))
        for number, data in enumerate(frames):
            out.write(struct.pack("<IIII", 1, number, len(data), len(data)) + data)


def run(nicforge, program, frames):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "frames.pcap"
        capture(path, frames)
        source = ROOT / "examples" / program / f"{program}.c"
        command = [nicforge, "run", source, "--target", "u280", "--pcap", path, "--json"]
        done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"error: {program}: {done.stderr.strip()}")
    return json.loads(done.stdout)


def areas():
    with open(ROOT / "docs" / "validation" / "fpga_yosys.csv") as table:
        return {row["program"]: row for row in csv.DictReader(table)}


def main():
    parser = argparse.ArgumentParser(description="Bars of the FPGA target")
    parser.add_argument("--nicforge", default=ROOT / "target" / "release" / "nicforge")
    parser.add_argument("--packets", type=int, default=2000)
    arguments = parser.parse_args()
    random.seed(1)
    known = areas()
    print("program       traffic           cycles  Mpps   Gbit/s  line rate  latency  LUTs (yosys)  published")
    for program in PROGRAMS:
        for size, traffic in ((64, "random flows"), (64, "one flow"), (128, "random flows")):
            flows = [random.getrandbits(30) if traffic == "random flows" else 7 for _ in range(arguments.packets)]
            result = run(arguments.nicforge, program, [frame(size, flow) for flow in flows])
            cycles = result["cycles_per_event"]
            # On the wire: preamble and gap count.
            wanted = (size + 20) * 8 / 100e9 * CLOCK
            area = known.get(program)
            luts = str(int(area["lut_sites"]) + int(area["lut_memory"])) if area else "-"
            print(
                f"{program:13} {traffic:13}{size:4}  {cycles:6.2f}  {CLOCK / cycles / 1e6:5.1f}  "
                f"{(size + 20) * 8 * CLOCK / cycles / 1e9:6.1f}  {'met' if cycles <= wanted else 'missed':9}  "
                f"{result['latency_cycles']['least'] * 4:4} ns  {luts:>12}  {PUBLISHED.get(program, '-')}"
            )


if __name__ == "__main__":
    main()
