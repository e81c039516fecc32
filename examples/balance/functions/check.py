"""Checks what the worker's functions answer against Python's own libraries and models written here.

    check.py WORKER [FUNCTION...]

Each function serves the first packets of its load (`worker FUNCTION --answer N`); packet, packet afterwards and results are
compared. Then the ones that remember serve from one shared table in two processes at a time, over sockets, and must
answer as one process does. Exit status 0 if all is as it should be.
"""

import hashlib
import math
import pathlib
import re
import socket
import struct
import subprocess
import sys
import tempfile
import zlib

M64 = (1 << 64) - 1


def mix(x):
    """splitmix64, as function.h has it."""
    x = (x + 0x9E3779B97F4A7C15) & M64
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9 & M64
    x = (x ^ (x >> 27)) * 0x94D049BB133111EB & M64
    return x ^ (x >> 31)


class Kvs:
    """A dictionary."""

    def __init__(self):
        self.values = {}

    def __call__(self, before, after, result):
        operation, key, length = struct.unpack_from("<BQH", before)
        value = before[11 : 11 + length]
        has, status, got = key in self.values, 0, b""
        if operation == 1:
            status, got = (0, self.values[key]) if has else (1, b"")
        elif operation == 2 or (operation == 3 and not has):
            self.values[key] = value
        elif operation == 3:
            status = 2
        elif has:
            del self.values[key]
        else:
            status = 1
        return result == struct.pack("<BH", status, len(got)) + got


class Count:
    """How often each item came."""

    def __init__(self):
        self.seen = {}

    def __call__(self, before, after, result):
        want = []
        for (item,) in struct.iter_unpack("<I", before):
            self.seen[item] = self.seen.get(item, 0) + 1
            want.append(self.seen[item])
        return result == struct.pack(f"<{len(want)}Q", *want)


class Ema:
    """Exponential moving averages, alpha 1/8."""

    def __init__(self):
        self.average = {}

    def __call__(self, before, after, result):
        averages = []
        for key, value in struct.iter_unpack("<II", before):
            known = self.average.get(key)
            self.average[key] = float(value) if known is None else 0.125 * value + 0.875 * known
            averages.append(self.average[key])
        alarms = sum((average > 900) << at for at, average in enumerate(averages))
        return result == struct.pack(f"<H{len(averages)}d", alarms, *averages)


def checksum(data):
    """The Internet checksum (RFC 1071); 0 over data that includes a right one."""
    if len(data) % 2:
        data += b"\0"
    total = sum(word for (word,) in struct.iter_unpack("!H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


class Nat:
    """Every inside flow has one outside port, back and forth, and checksums are right."""

    def __init__(self):
        self.port, self.flow = {}, {}

    def __call__(self, before, after, result):
        protocol = before[9]
        head = 20 if protocol == 6 else 8
        source, target = struct.unpack_from("!4s4s", before, 12)
        sport, dport = struct.unpack_from("!HH", before, 20)
        outside = bytes([198, 51, 100, 1])
        has_sum = protocol == 6 or before[26:28] != b"\0\0"
        right = result == after[: 20 + head] and after[20 + head :] == before[20 + head :] and checksum(after[:20]) == 0
        pseudo = after[12:20] + struct.pack("!HH", protocol, len(after) - 20)
        right &= checksum(pseudo + after[20:]) == 0 if has_sum else after[26:28] == b"\0\0"
        if source[0] == 10:
            right &= after[12:16] == outside and after[16:20] == target and after[22:24] == before[22:24]
            port = struct.unpack_from("!H", after, 20)[0]
            right &= self.port.setdefault((source, sport, protocol), port) == port
            right &= self.flow.setdefault(port, (source, sport, protocol)) == (source, sport, protocol)
        else:
            right &= target == outside and after[12:16] == source and after[20:22] == before[20:22]
            inside = (after[16:20], struct.unpack_from("!H", after, 22)[0], protocol)
            right &= self.flow.setdefault(dport, inside) == inside and self.port.setdefault(inside, dport) == dport
        return right


class Bm25:
    """Okapi BM25 by its formula."""

    def __init__(self, terms=2048):
        words = [[mix(term * 64 + document) for document in range(64)] for term in range(terms)]
        self.times = [[1 + (word >> 8) % 7 if word % 8 == 0 else 0 for word in row] for row in words]
        length = [sum(row[document] for row in self.times) for document in range(64)]
        mean = sum(length) / 64
        having = [sum(times > 0 for times in row) for row in self.times]
        self.idf = [math.log(1 + (64 - n + 0.5) / (n + 0.5)) for n in having]
        self.norm = [1.2 * (1 - 0.75 + 0.75 * one / mean) for one in length]

    def __call__(self, before, after, result):
        terms = [term % len(self.idf) for (term,) in struct.iter_unpack("<H", before)]
        score = [
            sum(self.idf[t] * self.times[t][d] * 2.2 / (self.times[t][d] + self.norm[d]) for t in terms) for d in range(64)
        ]
        best = sorted(range(64), key=lambda d: (-score[d], d))[:4]
        got = list(struct.iter_unpack("<Bd", result))
        close = all(abs(value - score[d]) < 1e-9 for d, value in got)
        return close and [round(score[d], 9) for d, _ in got] == [round(score[d], 9) for d in best]


class Knn:
    """The class most of the four nearest have."""

    def __init__(self, count=16):
        words = [mix(at ^ 0x6B6E6E) for at in range(count)]
        self.points = [(word % 1000, (word >> 32) % 1000, at % 5) for at, word in enumerate(words)]

    def __call__(self, before, after, result):
        want = []
        for x, y in struct.iter_unpack("<ii", before):
            near = sorted(((x - a) ** 2 + (y - b) ** 2, at) for at, (a, b, _) in enumerate(self.points))[:4]
            votes = [self.points[at][2] for _, at in near]
            want.append(max(range(5), key=lambda kind: (votes.count(kind), -kind)))
        return result == bytes(want)


class Bayes:
    """Sums of logarithms."""

    def __init__(self, features=128):
        self.features = features
        seen = [[(1 + mix(kind * 256 + feature) % 99) / 100 for feature in range(features)] for kind in range(8)]
        self.logs = [[(math.log(1 - one), math.log(one)) for one in row] for row in seen]

    def __call__(self, before, after, result):
        bits = [before[at // 8] >> at % 8 & 1 for at in range(self.features)]
        scores = [
            math.log((kind + 1) / 36) + sum(self.logs[kind][at][bit] for at, bit in enumerate(bits)) for kind in range(8)
        ]
        kind, score = struct.unpack("<Bd", result)
        return abs(score - scores[kind]) < 1e-6 and scores[kind] > max(scores) - 1e-6


class Regex:
    """Python's own regular expressions."""

    def __init__(self, name="literals"):
        lines = (pathlib.Path(__file__).parent / "rules" / f"{name}.txt").read_bytes().splitlines()
        # Hyperscan's dot does not match a newline either, and there is none in the load.
        self.rules = [re.compile(line.split(b"\t", 1)[1]) for line in lines]
        self.matched = 0

    def __call__(self, before, after, result):
        want = [at for at, rule in enumerate(self.rules) if rule.search(before)]
        self.matched += len(want)
        return result == struct.pack(f"<H{len(want)}H", len(want), *want)


def digest(before, after, result):
    """SHA-256 by hashlib."""
    return result == hashlib.sha256(before).digest()


def inflate(before, after, result):
    """Deflated bytes are the packet's again, by zlib."""
    return zlib.decompress(result, -15) == before


class Openssl:
    """The openssl command on the same packet."""

    def __init__(self, kind, keys):
        self.kind, self.key = kind, keys / f"{kind}.pem"

    def __call__(self, before, after, result):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder)
            (path / "packet").write_bytes(before)
            (path / "result").write_bytes(result)
            run = lambda *words: subprocess.run(["openssl", *words], cwd=path, check=True, capture_output=True).stdout  # noqa: E731
            if self.kind == "aes":
                iv = ["-K", bytes(range(16)).hex(), "-iv", before[:16].hex()]
                return run("enc", "-aes-128-ctr", *iv, "-in", "packet") == result
            if self.kind == "dh":
                # A public key of X25519 in DER (RFC 8410).
                (path / "peer").write_bytes(bytes.fromhex("302a300506032b656e032100") + before[:32])
                peer = ["-peerkey", "peer", "-peerform", "DER"]
                return run("pkeyutl", "-derive", "-inkey", str(self.key), *peer) == result
            run("pkey", "-in", str(self.key), "-pubout", "-out", "public")
            verified = run("dgst", "-sha256", "-verify", "public", "-signature", "result", "packet")
            return verified == b"Verified OK\n"


def answers(worker, function, count):
    """Packet, packet afterwards, results of the first packets."""
    output = subprocess.run([worker, function, "--answer", str(count)], check=True, capture_output=True).stdout
    parts, at = [], 0
    while at < len(output):
        (size,) = struct.unpack_from("<I", output, at)
        parts.append(output[at + 4 : at + 4 + size])
        at += 4 + size
    return list(zip(parts[::3], parts[1::3], parts[2::3], strict=True))


def check(worker, name, count, model):
    """One function against its model."""
    wrong = [at for at, one in enumerate(answers(worker, name, count)) if not model(*one)]
    print(f"{name:18} {count - len(wrong)} of {count} right" + (f", the first wrong one is {wrong[0]}" if wrong else ""))
    return not wrong


def ask(to, number, packet):
    """A packet's reply, from the worker at a port."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        s.settimeout(30)
        s.sendto(struct.pack("<Q", number) + packet, ("127.0.0.1", to))
        reply = s.recv(2000)
    assert struct.unpack_from("<Q", reply)[0] == number
    return reply[8:]


def shared(worker, name, count):
    """Two processes on one table take turns by a coin and answer as one process does."""
    expected = answers(worker, name, count)
    ports = []
    for _ in range(2):
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
            s.bind(("127.0.0.1", 0))
            ports.append(s.getsockname()[1])
    with tempfile.TemporaryDirectory() as folder:
        started = []
        try:
            for port in ports:
                words = [worker, name, "--listen", f"127.0.0.1:{port}", "--shared", f"{folder}/table"]
                started.append(subprocess.Popen(words, stdout=subprocess.PIPE, text=True))
                assert started[-1].stdout.readline() == "ready\n"
            took = [0, 0]
            wrong = 0
            for number, (before, _, result) in enumerate(expected):
                side = mix(number) >> 40 & 1
                took[side] += 1
                wrong += ask(ports[side], number, before) != result
        finally:
            for process in started:
                process.terminate()
                process.communicate(timeout=30)
    print(f"{name:18} {count - wrong} of {count} right from two processes ({took[0]} and {took[1]}) that share a table")
    return wrong == 0


def main():
    worker = str(pathlib.Path(sys.argv[1]).resolve())
    keys = pathlib.Path(worker).parent / "keys"
    cases = {
        "kvs": (2000, Kvs()),
        "count": (1000, Count()),
        "ema": (1000, Ema()),
        "nat": (600, Nat()),
        "nat=10000": (300, Nat()),
        "bm25": (60, Bm25()),
        "knn": (200, Knn()),
        "bayes": (200, Bayes()),
        "bayes=256": (100, Bayes(256)),
        "regex": (100, Regex()),
        "regex=expressions": (100, Regex("expressions")),
        "crypto": (200, digest),
        "deflate": (100, inflate),
        "isal": (100, inflate),
    }
    cases |= {f"crypto={kind}": (5, Openssl(kind, keys)) for kind in ("aes", "rsa", "dh", "dsa")}
    wanted = sys.argv[2:] or list(cases)
    fine = all([check(worker, name, *cases[name]) for name in wanted])
    for name in ("kvs", "count", "ema"):
        if name in wanted:
            fine &= shared(worker, name, 400)
    for name in ("regex", "regex=expressions"):
        if name in wanted and cases[name][1].matched < 50:
            print(f"{name}: only {cases[name][1].matched} matches in the load: nothing was checked")
            fine = False
    sys.exit(0 if fine else 1)


main()
