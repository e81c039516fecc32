"""What a request costs on each side of the store, and how many the NIC side answers: every variant
under the published load.

Throughput says little where client, kernel and process share two cores, so CPU time is counted: of
the kernel's programs by the kernel (`run_time_ns`, which counts their tail calls and helpers), of
the process by the scheduler, system calls and waiting included. Requests come in bursts of 32, as
fast as they are answered: a client that sends them one by one wakes the process for each, which
costs more than the request. What did not go to the process as a request was answered on the NIC
side. Half as many requests warm the caches before. What a full store refuses it counts. Run by
`kvs.py --bench`.
"""

import contextlib
import json
import os
import pathlib
import shutil
import struct
import subprocess
import sys
import tempfile
import time

from kvs import POLICIES, VARIANTS, program
from load import KEYS, PORT, Workload, binary_request, key_of, value_of
from selftest import ADDRESS, HERE, find, store

sys.path.insert(0, str(HERE.parent))
import namespace  # noqa: E402

#: Requests at once; the rings of a veth hold 256.
AT_ONCE = 32

#: Events for the process that are no requests: what made room in a cache.
NO_REQUEST = ("displaced",)


def run(requests: int) -> int:
    """Exit status: 0, 1 if requests were lost, 3 if something is missing here."""
    return namespace.again(HERE / "bench.py", ["bpftool", "cc"], str(requests))


def programs() -> dict[int, dict]:
    """The kernel's programs by their number."""
    for _ in range(20):
        told = subprocess.run(["bpftool", "--json", "prog", "show"], capture_output=True, text=True)
        # It fails if one ends while it looks at all.
        if told.returncode == 0:
            return {each["id"]: each for each in json.loads(told.stdout)}
    sys.exit(f"error: bpftool ended with {told.returncode}: {told.stdout}{told.stderr}")


def spent(pid: int, ours: set[int]) -> tuple[int, int]:
    """CPU time so far in ns, of the programs and of the process."""
    tasks = pathlib.Path(f"/proc/{pid}/task").iterdir()
    host = sum(int((task / "schedstat").read_text().split()[0]) for task in tasks)
    return sum(
        each.get("run_time_ns", 0) for number, each in programs().items() if number in ours
    ), host


def counted(pid: int) -> tuple[int, int]:
    """Requests that came to the process so far, and those that were refused. The process counts its
    tables for that, tens of milliseconds, so never between two looks at what it spent."""
    told = subprocess.run(
        [find(), "metrics", "--run", str(pid), "--json"], check=True, capture_output=True, text=True
    )
    told = json.loads(told.stdout)
    asked = sum(n for event, n in told["to_host"].items() if not event.endswith(NO_REQUEST))
    return asked, sum(told["drops"].values())


def ask_all(ask: pathlib.Path, datagrams: list[bytes]) -> int:
    """Sends requests, some at once; how many were lost."""
    requests = b"".join(struct.pack("<H", len(datagram)) + datagram for datagram in datagrams)
    told = subprocess.run(
        [ask, ADDRESS, str(PORT), str(AT_ONCE)], input=requests, check=True, stdout=subprocess.PIPE
    )
    return int(told.stdout)


def made_in(folder: str) -> str:
    """How long it takes from elements to a program for the kernel, and how much of that is
    clang's."""
    began = time.monotonic()
    source = pathlib.Path(folder) / "store.c"
    source.write_text(program("nic-cache", "write-back").source().text)
    python = time.monotonic() - began
    tools, spent_there = pathlib.Path(folder) / "bin", pathlib.Path(folder) / "times"
    tools.mkdir()
    clang = tools / "clang-19"
    clang.write_text(
        f'#!/bin/bash\nTIMEFORMAT=%R\n{{ time {shutil.which("clang-19")} "$@" 2>&3; }} 3>&2 2>>{spent_there}\n'
    )
    clang.chmod(0o755)
    words = [
        find(),
        "build",
        str(source),
        "--target",
        "xdp",
        "-o",
        str(pathlib.Path(folder) / "store.o"),
    ]
    began = time.monotonic()
    environment = {**os.environ, "PATH": f"{tools}:{os.environ['PATH']}"}
    subprocess.run(words, check=True, env=environment, stdout=subprocess.DEVNULL)
    compiler = sum(float(line) for line in spent_there.read_text().split())
    ours = time.monotonic() - began - compiler
    return f"made in {python:.2f} s of Python, {ours:.2f} s of nicforge and {compiler:.2f} s of clang; bar without it: 1 s"


def measure(requests: int) -> int:
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    namespace.network()
    work = Workload(1)
    fill = [binary_request(key, False, key_of(key), value_of(key, 0)) for key in range(KEYS)]
    ask = [
        binary_request(n, get, key_of(key), value_of(key, v))
        for n, (get, key, v) in zip(range(requests * 3 // 2), work, strict=False)
    ]
    warm, ask = ask[: requests // 2], ask[requests // 2 :]
    with tempfile.TemporaryDirectory(prefix="nicforge-kvs-") as folder:
        print(f"the store with a write-back cache is {made_in(folder)}")
    print(f"{len(ask)} requests for {KEYS} keys, Zipf 0.9, 90 % GET, after all keys were stored")
    print(
        f"{'variant':<24} {'answered on the NIC side':>24} {'NIC side':>14} {'host':>14} {'refused':>8} {'lost':>6}"
    )
    failed = False
    with (
        tempfile.TemporaryDirectory(prefix="nicforge-kvs-") as folder,
        contextlib.ExitStack() as ends,
    ):
        tool = pathlib.Path(folder) / "ask"
        subprocess.run(["cc", "-O2", "-o", tool, HERE / "ask.c"], check=True)
        listening = namespace.listen(pathlib.Path(folder))
        ends.callback(listening.wait)
        ends.callback(listening.kill)
        for variant, policy in [(variant, policy) for variant in VARIANTS for policy in POLICIES]:
            if policy != POLICIES[0] and variant != "nic-cache":
                continue
            others = set(programs())
            with store(folder, program(variant, policy)) as (process, _):
                ours = set(programs()) - others
                ask_all(tool, fill)
                ask_all(tool, warm)
                counts = counted(process.pid)
                before = spent(process.pid, ours)
                unanswered = ask_all(tool, ask)
                after = spent(process.pid, ours)
                counts = counts, counted(process.pid)
            nic, host = (now - then for then, now in zip(before, after, strict=True))
            asked, refused = (now - then for then, now in zip(*counts, strict=True))
            name = variant if variant != "nic-cache" else f"{variant}, {policy}"
            near, lost = 1 - (asked + refused) / requests, unanswered - refused
            costs = f"{nic / requests:>11.0f} ns {host / requests:>11.0f} ns"
            print(f"{name:<24} {near:>24.1%} {costs} {refused:>8} {lost:>6}", flush=True)
            failed = failed or lost != 0
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(measure(int(sys.argv[1])))
