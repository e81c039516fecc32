"""What `search.py` and `cipher.py` answer, compared with Python and with a published example, and
on targets."""

import pathlib
import random
import re
import struct
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1]))
import packets  # noqa: E402
from nicforge.flow import FlowError  # noqa: E402

TARGETS = ("dpdk", "xdp")

#: NIST SP 800-38A, F.2.1.
PLAIN = bytes.fromhex(
    "6bc1bee22e409f96e93d7e117393172aae2d8a571e03ac9c9eb76fac45af8e51"
    "30c81c46a35ce411e5fbc1191a0a52eff69f2445df4f9b17ad2b417be66c3710"
)
SEALED = bytes.fromhex(
    "7649abac8119b246cee98e9b12e9197d5086cb9b507219ee95db113a917678b2"
    "73bed6b8e3c1743b7116e69e222295163ff1caa1681fac09120eca307586e1a7"
)


def frame(text: bytes, port: int) -> bytes:
    datagram = packets.udp("10.0.0.2", "10.0.0.1", 4000, port, text)
    ip = packets.ipv4("10.0.0.2", "10.0.0.1", 17, datagram)
    return packets.pad(packets.ethernet("02:00:00:00:00:01", "02:00:00:00:00:02", 0x0800, ip))


def write(path: pathlib.Path, frames: list[bytes]) -> str:
    with open(path, "wb") as file:
        file.write(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1))
        for at, one in enumerate(frames):
            file.write(struct.pack("<IIII", 1, at, len(one), len(one)) + one)
    return str(path)


def texts(path: pathlib.Path) -> list[bytes]:
    """The texts of a capture's datagrams."""
    data, at, found = path.read_bytes(), 24, []
    while at < len(data):
        length = struct.unpack_from("<I", data, at + 8)[0]
        one = data[at + 16 : at + 16 + length]
        found.append(one[42 : 34 + struct.unpack_from(">H", one, 38)[0]])
        at += 16 + length
    return found


def compare(program, sent: list[bytes], port: int, expected: list[bytes]) -> int:
    """Runs the program in the interpreter, then on targets; exit status."""
    with tempfile.TemporaryDirectory(prefix="nicforge-bodies-") as folder:
        place = pathlib.Path(folder)
        pcap = write(place / "in.pcap", [frame(text, port) for text in sent])
        try:
            program.run(pcap, "--out", str(place / "out.pcap"))
            found = texts(place / "out.pcap")
            right = sum(a == b for a, b in zip(found, expected, strict=False))
            print(f"{right} of {len(expected)} answers as expected, of {len(sent)} requests")
            for target in TARGETS:
                print(program.verify(target, "--pcap", pcap).strip())
        except FlowError as error:
            print(f"error: {error}", file=sys.stderr)
            return 1
    return 0 if found == expected else 1


def search(program, port: int, pattern: str) -> int:
    numbers = random.Random(5)
    words = [
        "ada@lovelace.org",
        "nobody",
        "grace@navy.net",
        "alan@bletchley",
        "x@y.org",
        "?",
        "2@3.net",
    ]
    lines = [" ".join(numbers.choices(words, k=numbers.randint(0, 5))).encode() for _ in range(200)]
    lines = [line[:64].ljust(64, b"\0") for line in lines]
    # The pattern is in C's string, where a backslash is written twice.
    wanted = [re.search(pattern.replace("\\\\", "\\").encode(), line) for line in lines]
    return compare(program, lines, port, [one[0] for one in wanted if one])


def cipher(program, port: int) -> int:
    numbers = random.Random(5)
    others = [numbers.randbytes(64) for _ in range(100)]
    status = compare(program, [PLAIN], port, [SEALED])
    # What the definition makes of these is compared with what the instructions do.
    with tempfile.TemporaryDirectory(prefix="nicforge-bodies-") as folder:
        pcap = write(pathlib.Path(folder) / "in.pcap", [frame(text, port) for text in others])
        for target in TARGETS:
            try:
                print(program.verify(target, "--pcap", pcap).strip())
            except FlowError as error:
                print(f"error: {error}", file=sys.stderr)
                return 1
    return status
