"""Serves the store on a veth pair in a namespace of its own, beside a real memcached, and compares
answers byte by byte.

The namespace has no name and ends with the processes in it. The client's end has an address, the
store's has none: whatever answers from there is the program. memcached runs without CAS numbers
(`-C`), which the store does not have. On `dpdk` the store takes the same veth by a packet socket.
Every request is answered on both.
"""

import collections
import contextlib
import json
import os
import pathlib
import random
import re
import select
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time

from kvs import program
from load import PORT, ascii_request, binary_request, key_of, mixed, value_of
from nicforge.linearizable import Operation, histories

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
import namespace  # noqa: E402
from namespace import ADDRESS, ENDS_WITH_US, PATIENCE, find  # noqa: E402

REQUESTS, KEYS = 3000, 150
#: Requests of the load tool.
LOAD = 10_000
#: Of the race: requests, keys, requests under way, and places of the cache at most, so that it
#: holds a few of the keys.
RACES, RACED, AT_ONCE, PLACES = 3000, 12, 12, 8
#: Where it can be served to a client here.
TARGETS = ("xdp", "dpdk")


def run(sizes: dict, words: list[str]) -> int:
    """Exit status: 0 if all answers are memcached's, 1 if not, 2 for another target, 3 if something
    is missing here.

    `sizes` are arguments of `program`, `words` what `nicforge run` is to know besides.
    """
    if target_of(words) not in TARGETS:
        print(
            f"error: the self-test serves on {' and '.join(TARGETS)}, not on {target_of(words)}",
            file=sys.stderr,
        )
        return 2
    return namespace.again(
        HERE / "selftest.py", ["memcached", "memcaslap"], json.dumps(sizes), *words
    )


def target_of(words: tuple[str, ...] | list[str]) -> str:
    return words[words.index("--target") + 1] if "--target" in words[:-1] else TARGETS[0]


def ask(address: str, datagram: bytes, seconds: float) -> bytes | None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.connect((address, PORT))
        sock.settimeout(seconds)
        sock.send(datagram)
        try:
            return sock.recv(4096)
        except (TimeoutError, ConnectionRefusedError):
            return None


def answer(sock: socket.socket) -> bytes | None:
    sock.settimeout(PATIENCE)
    try:
        return sock.recv(4096)
    except TimeoutError:
        return None


def until_attached(name: str, there: bool) -> None:
    namespace.until(
        f"`{name}` has a program: {there}", lambda: ("xdp" in namespace.link(name)) == there
    )


def until_answered(address: str, what: str, process: subprocess.Popen) -> None:
    started = time.monotonic()
    while ask(address, binary_request(1, True, b"ready"), 0.5) is None:
        if process.poll() is not None or time.monotonic() - started > PATIENCE:
            sys.exit(f"error: {what} does not answer")


def serve(sizes: dict, words: list[str]) -> int:
    """`sizes` and `words` as `run` has them."""
    # What arrives is handled where it is sent: one CPU for all packets, the one that the store's
    # NIC side begins with.
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    namespace.network()
    with (
        tempfile.TemporaryDirectory(prefix="nicforge-kvs-") as folder,
        contextlib.ExitStack() as ends,
    ):
        # As root: a change of user would make it outlive a test that is killed.
        memcached = start(
            ends, "memcached", "-U", str(PORT), "-p", "0", "-l", "127.0.0.1", "-C", "-u", "root"
        )
        listening = namespace.listen(pathlib.Path(folder))
        ends.callback(listening.wait)
        ends.callback(listening.kill)
        until_answered("127.0.0.1", "memcached", memcached)
        with store(folder, program(**sizes), words) as (_, report):
            wrong, asked = compare(), load_tool(folder)
        held = ", ".join(
            f"{table['entries']} in {table['table']}"
            for table in report["tables"]
            if table["kind"] == "hash"
        )
        said = (
            "answers like memcached" if not wrong else f"{len(wrong)} answers are not memcached's"
        )
        few = {**sizes, "buckets": min(sizes["buckets"], max(1, PLACES // sizes["ways"]))}
        with store(folder, program(**few), words):
            raced, unanswered = race()
        if unanswered:
            raced = [*raced, f"{unanswered} requests were not answered"]
    trouble = [
        f"memaslap: {count} {what}"
        for what, count in asked.items()
        if count and what not in ("cmd_get", "cmd_set")
    ]
    for line in [*wrong[:5], *trouble, *raced[:5]]:
        print(line)
    print(
        f"{sizes['variant']}, {sizes['policy']}, {target_of(words)}: {REQUESTS} requests of both protocols, {said}; {held}"
    )
    print(
        f"memaslap, libmemcached's load tool: {asked['cmd_get']} GETs and {asked['cmd_set']} SETs, "
        + (", ".join(trouble) if trouble else "all values as it wrote them")
    )
    places = (
        f"{few['buckets']} times {few['ways']} places, " if sizes["variant"] == "nic-cache" else ""
    )
    print(
        f"{RACES} requests for {RACED} keys, {AT_ONCE} at once, {places}{unanswered} not answered: "
        + ("the history is linearizable" if not raced else "nothing explains the history")
    )
    return 1 if wrong or trouble or raced else 0


def start(ends: contextlib.ExitStack, *words: str, **options) -> subprocess.Popen:
    """A process that ends with the test."""
    options = options or {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    process = subprocess.Popen([*ENDS_WITH_US, *words], **options)
    ends.callback(process.wait)
    ends.callback(process.kill)
    return process


@contextlib.contextmanager
def store(folder: str, flow, words: tuple[str, ...] | list[str] = ()):
    """The store on nf0; its report is there when it has ended. `words`: for `nicforge run`,
    besides."""
    source, report = pathlib.Path(folder) / "kvs.c", {}
    source.write_text(flow.source().text)
    with contextlib.ExitStack() as ends:
        # The program as it is, without a search for other pipelines: packets go to the process from
        # one CPU.
        own = [] if "--target" in words else ["--target", target_of(words)]
        command = [
            find(),
            "run",
            str(source),
            *own,
            *words,
            "--dev",
            "nf0",
            "--json",
            "--candidate",
            "0",
        ]
        process = start(ends, *command, stdout=subprocess.PIPE, text=True, preexec_fn=all_cpus)
        if target_of(words) == "xdp":
            until_attached("nf0", True)
        until_answered(ADDRESS, f"the store ({flow.name})", process)
        yield process, report
        process.send_signal(signal.SIGINT)
        report.update(json.loads(process.communicate(timeout=PATIENCE)[0]))
        if process.returncode != 0:
            sys.exit(f"error: the store ended with {process.returncode}")
    until_attached("nf0", False)


def all_cpus() -> None:
    os.sched_setaffinity(0, range(os.cpu_count() or 1))


def compare() -> list[str]:
    """One request after the other to both."""
    wrong = []
    for number, datagram in enumerate(mixed(7, REQUESTS, KEYS)):
        want, got = (ask(address, datagram, PATIENCE) for address in ("127.0.0.1", ADDRESS))
        if want != got:
            wrong.append(
                f"request {number} {datagram[8:60]!r}: memcached says {want!r}, the store {got!r}"
            )
        if got is None:
            break
    return wrong


def load_tool(folder: str) -> dict[str, int]:
    """What memaslap, the load tool of libmemcached, counts: requests of the text protocol, whose
    values it checks."""
    shape = pathlib.Path(folder) / "memaslap.conf"
    # Bytes of keys and values, and shares of SETs (0) and GETs (1).
    shape.write_text("key\n32 32 1\nvalue\n64 64 1\ncmd\n0 0.1\n1 0.9\n")
    words = [
        "memcaslap",
        "-s",
        f"{ADDRESS}:{PORT}",
        "--udp",
        "-T",
        "1",
        "-c",
        "4",
        "-x",
        str(LOAD),
        "-v",
        "1",
        "-F",
        str(shape),
    ]
    told = subprocess.run(words, capture_output=True, text=True, timeout=2 * PATIENCE)
    counted = dict(re.findall(r"^(\w+): (\d+)$", told.stdout, re.MULTILINE))
    if told.returncode != 0 or counted.keys() < {"cmd_get", "cmd_set", "get_misses"}:
        sys.exit(
            f"error: memcaslap ended with {told.returncode}: {told.stdout[-300:]}{told.stderr[-300:]}"
        )
    wanted = (
        "cmd_get",
        "cmd_set",
        "get_misses",
        "verify_misses",
        "verify_failed",
        "packet_disorder",
        "packet_drop",
        "udp_timeout",
    )
    return {what: int(counted[what]) for what in wanted}


def race() -> tuple[list[str], int]:
    """Random requests of both protocols, many at once: why what was answered cannot be, and how
    many were not answered.

    Each write has a version of its own, so answers say what they read. Times are those before
    sending and after receiving.
    """
    chance, began = random.Random(3), {}
    done: dict[int, list[Operation]] = collections.defaultdict(list)
    wrong: list[str] = []
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.connect((ADDRESS, PORT))

        def receive(seconds: float) -> bool:
            if not select.select([sock], [], [], seconds)[0]:
                return False
            got = sock.recv(4096)
            now, number = time.monotonic_ns(), struct.unpack_from(">H", got)[0]
            if number not in began:
                wrong.append(f"request {number} was answered twice")
                return True
            key, since, write = began.pop(number)
            done[key].append(Operation(since, now, write, number if write else version_in(got)))
            return True

        for number in range(1, RACES + 1):
            key, write, text = chance.randrange(RACED), chance.random() < 0.5, chance.random() < 0.3
            request = (ascii_request if text else binary_request)(
                number, not write, key_of(key), value_of(key, number) if write else b""
            )
            # Requests that were refused never come back: they do not count as under way for long.
            while (
                sum(time.monotonic_ns() - since < 10**9 for _, since, _ in began.values())
                >= AT_ONCE
            ):
                receive(0.05)
            began[number] = (key, time.monotonic_ns(), write)
            sock.send(request)
            while receive(0):
                pass
        # The last ones: until all reads are there. Writes may have been refused, so none may come.
        while began and receive(3.0 if all(write for _, _, write in began.values()) else PATIENCE):
            pass
    for key, _, write in began.values():
        if not write:
            wrong.append(f"a read of key {key} was not answered")
    impossible = histories(done)
    return [*wrong, *([f"keys {impossible}: not linearizable"] if impossible else [])], len(began)


def version_in(answer: bytes) -> int:
    """Which write's value an answer to a GET has; 0 for none."""
    text = answer[8:]
    value = (
        text[28:]
        if text[0] == 0x81 and len(answer) == 100
        else text.split(b"\r\n")[1]
        if text[:5] == b"VALUE"
        else b""
    )
    return int(value.split(b":")[1]) if value else 0


if __name__ == "__main__":
    sys.exit(serve(json.loads(sys.argv[1]), sys.argv[2:]))
