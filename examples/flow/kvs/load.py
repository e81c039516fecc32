"""The load of the published key-value stores: 100,000 keys, Zipf 0.9, 90 % GET, keys of 32 and
values of 64 bytes.

From Floem (OSDI'18), section 5.1, whose generator was not published.

python3 load.py 10.9.0.1 --requests 20000             # against a store, one request at a time
python3 load.py --pcap requests.pcap --requests 2000  # as a capture
"""

import argparse
import bisect
import itertools
import random
import socket
import struct
import sys
import time

KEYS, SKEW, GETS, KEY_BYTES, VALUE_BYTES = 100_000, 0.9, 0.9, 32, 64
PORT = 11211
FRAME = struct.Struct(">HHHH")
BINARY = struct.Struct(">BBHBBHIIQ")


class Workload:
    """Requests as (is a GET, key number, version), from a seed."""

    def __init__(self, seed: int, keys: int = KEYS, skew: float = SKEW, gets: float = GETS):
        self.random, self.gets = random.Random(seed), gets
        self.sums = list(itertools.accumulate(1 / (rank + 1) ** skew for rank in range(keys)))
        # Popular keys are anywhere among all.
        self.keys = list(range(keys))
        random.Random(1).shuffle(self.keys)
        self.version = 0

    def __iter__(self):
        return self

    def __next__(self) -> tuple[bool, int, int]:
        rank = bisect.bisect_left(self.sums, self.random.random() * self.sums[-1])
        self.version += 1
        return (
            self.random.random() < self.gets,
            self.keys[min(rank, len(self.keys) - 1)],
            self.version,
        )


def key_of(number: int) -> bytes:
    return f"key-{number:0{KEY_BYTES - 4}}".encode()


def value_of(number: int, version: int, size: int = VALUE_BYTES) -> bytes:
    return f"{number}:{version}:".encode().ljust(size, b"x")[:size]


def binary_request(number: int, get: bool, key: bytes, value: bytes = b"", flags: int = 0) -> bytes:
    """A datagram of the binary protocol."""
    extras = b"" if get else struct.pack(">II", flags, 0)
    body = extras + key + (b"" if get else value)
    header = BINARY.pack(0x80, 0 if get else 1, len(key), len(extras), 0, 0, len(body), number, 0)
    return FRAME.pack(number & 0xFFFF, 0, 1, 0) + header + body


def ascii_request(number: int, get: bool, key: bytes, value: bytes = b"", flags: int = 0) -> bytes:
    """A datagram of the text protocol."""
    if get:
        return FRAME.pack(number & 0xFFFF, 0, 1, 0) + b"get " + key + b"\r\n"
    line = b"set %s %d 0 %d\r\n" % (key, flags, len(value))
    return FRAME.pack(number & 0xFFFF, 0, 1, 0) + line + value + b"\r\n"


def ethernet(datagram: bytes, source_port: int = 40000) -> bytes:
    """A datagram as a frame from 10.9.0.2 to 10.9.0.1."""
    udp = struct.pack(">HHHH", source_port, PORT, 8 + len(datagram), 0) + datagram
    ip = struct.pack(
        ">BBHHHBBH4s4s",
        0x45,
        0,
        20 + len(udp),
        0,
        0,
        64,
        17,
        0,
        bytes([10, 9, 0, 2]),
        bytes([10, 9, 0, 1]),
    )
    total = sum(struct.unpack(">10H", ip))
    total = (total & 0xFFFF) + (total >> 16)
    ip = ip[:10] + struct.pack(">H", ~(total + (total >> 16)) & 0xFFFF) + ip[12:]
    return bytes.fromhex("020000000001020000000002") + b"\x08\x00" + ip + udp


def write_pcap(path: str, frames: list[bytes]) -> None:
    with open(path, "wb") as file:
        file.write(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1))
        for at, frame in enumerate(frames):
            file.write(
                struct.pack("<IIII", at // 1000, at % 1000 * 1000, len(frame), len(frame)) + frame
            )


def mixed(seed: int, many: int, keys: int) -> list[bytes]:
    """Requests of both protocols, with keys and values of all sizes."""
    chance, list_ = random.Random(seed), []
    for number, (get, key, version) in zip(
        range(many), Workload(seed, keys=keys, gets=0.6), strict=False
    ):
        make = chance.choice((binary_request, ascii_request))
        name = (b"k%d-" % key).ljust(1 + key * 7 % KEY_BYTES, b"k")[:KEY_BYTES]
        if chance.random() < 0.2:
            # As libmemcached's load tool does: control characters in keys, and bits in the frame
            # header's last field.
            name = name.replace(b"k", b"\x10\x07")[:KEY_BYTES]
        value = value_of(key, version, chance.randrange(VALUE_BYTES + 1))
        datagram = make(number, get, name, value, chance.choice((0, 7, 0xFFFFFFFF)))
        list_.append(datagram[:6] + chance.choice((b"\0\0", b"\1\0")) + datagram[8:])
    return list_


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("address", nargs="?", help="of the store")
    parser.add_argument("--requests", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--mixed", type=int, metavar="KEYS", help="both protocols and all sizes, of so many keys"
    )
    parser.add_argument("--pcap", metavar="FILE", help="write a capture")
    options = parser.parse_args()
    work = Workload(options.seed)
    if options.mixed:
        datagrams = mixed(options.seed, options.requests, options.mixed)
    else:
        numbered = zip(range(options.requests), work, strict=False)
        datagrams = [
            binary_request(n, get, key_of(key), value_of(key, v)) for n, (get, key, v) in numbered
        ]
    if options.pcap:
        write_pcap(options.pcap, [ethernet(datagram) for datagram in datagrams])
    if options.address:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
            sock.connect((options.address, PORT))
            sock.settimeout(60)
            hits, started = 0, time.monotonic()
            for datagram in datagrams:
                sock.send(datagram)
                answer = sock.recv(2048)
                hits += len(answer) > FRAME.size + BINARY.size + 9
            seconds = time.monotonic() - started
        print(
            f"{len(datagrams)} requests, {hits} values, {seconds:.2f} s one at a time",
            file=sys.stderr,
        )


if __name__ == "__main__":
    main()
