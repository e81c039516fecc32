"""Two nodes on a veth pair in a network namespace without a name, with a worker each; what they
rank is compared with counting.

Both variants are run, and the CPU time that a tuple costs the runs' own threads is printed; what
the kernel does with packets in between is not among it.
"""

import collections
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile

from analytics import VARIANTS, program

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
import namespace  # noqa: E402
from namespace import ENDS_WITH_US, PATIENCE, find  # noqa: E402

TUPLES, TOP, WORDS, SLOTS, SLOT = 20_000, 5, 300, 5, 1000


def run() -> int:
    """Exit status: 0 if both variants rank as counting does, 1 if not, 3 if something is missing
    here."""
    return namespace.again(HERE / "selftest.py", ["gcc"])


def expected() -> list[str]:
    """The ranking, counted here: the spout's words, each counter's last slots, the best of both
    nodes."""
    state, streams = 1, ([], [])
    for _ in range(TUPLES):
        numbers = []
        for _ in range(3):
            state = (state * 6364136223846793005 + 1442695040888963407) % 2**64
            numbers.append((state >> 33) % (WORDS // 2))
        streams[(min(numbers) * 7 + 3) % 2].append(f"word{min(numbers)}")
    best = []
    for words in streams:
        # Of the slot that is not full, and of the full ones before it that the window still has.
        full = len(words) // SLOT * SLOT
        counts = collections.Counter(words[max(0, full - (SLOTS - 1) * SLOT) :])
        best += sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:TOP]
    return [
        f"{word} {count}"
        for word, count in sorted(best, key=lambda item: (-item[1], item[0]))[:TOP]
    ]


def cpu_ns(process: subprocess.Popen) -> int:
    """CPU time of a process's threads so far."""
    tasks = pathlib.Path(f"/proc/{process.pid}/task").glob("*/schedstat")
    return sum(int(task.read_text().split()[0]) for task in tasks)


def rank(variant: str) -> tuple[list[str], list[dict], int]:
    """Runs a variant: the ranking, the report of each node, CPU time of both runs in ns."""
    folder = tempfile.TemporaryDirectory(prefix="nicforge-analytics-")
    place, runs, workers = pathlib.Path(folder.name), [], []
    try:
        for node, name in enumerate(("nf0", "client")):
            source = place / str(node) / "analytics.c"
            source.parent.mkdir()
            source.write_text(program(node, variant).source().text)
            words = [
                find(),
                "run",
                str(source),
                "--target",
                "xdp",
                "--dev",
                name,
                "--json",
                "--host-socket",
                f"{place}/run{node}",
            ]
            runs.append(
                subprocess.Popen(
                    [*ENDS_WITH_US, *words],
                    stdout=subprocess.PIPE,
                    stderr=subprocess.DEVNULL,
                    text=True,
                )
            )
        for name in ("nf0", "client"):
            namespace.until_attached(name)
        header = [find(), "build", str(place / "0/analytics.c"), "--emit", "host", "-o", str(place)]
        subprocess.run(header, check=True, stdout=subprocess.DEVNULL)
        flags = ["-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror", "-Wno-stringop-truncation"]
        subprocess.run(
            ["gcc", *flags, "-I", str(place), str(HERE / "worker.c"), "-o", str(place / "worker")],
            check=True,
        )
        before = sum(map(cpu_ns, runs))
        for node in (1, 0):
            words = [str(place / "worker"), str(node), f"{place}/run{node}", str(TUPLES), str(TOP)]
            workers.append(
                subprocess.Popen([*ENDS_WITH_US, *words], stdout=subprocess.PIPE, text=True)
            )
        ranking = workers[0].communicate(timeout=2 * PATIENCE)[0].splitlines()
        workers[1].communicate(timeout=PATIENCE)
        spent, reports = sum(map(cpu_ns, runs)) - before, []
        for process in runs:
            process.send_signal(signal.SIGINT)
            reports.append(json.loads(process.communicate(timeout=PATIENCE)[0]))
    finally:
        for process in (*runs, *workers):
            process.kill()
            process.wait()
        folder.cleanup()
    return ranking, reports, spent


def main() -> int:
    # veth hands a packet over on the CPU it is sent on: of two, one could overtake the other, and
    # windows slide by order.
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    namespace.network()
    right, wrong, times = expected(), False, {}
    for variant in VARIANTS:
        ranking, reports, spent = rank(variant)
        lost = sum(report["attached"]["lost"] for report in reports)
        tuples = sum(report["attached"]["taken"] for report in reports)
        times[variant] = spent / tuples
        same = "as counted" if ranking == right else f"not as counted, which is {right}"
        wrong |= ranking != right
        print(
            f"{variant}: {', '.join(ranking)}: {same}; {tuples} tuples of both workers, {lost} lost, "
            f"{spent / tuples:,.0f} ns of the runs' CPU a tuple"
        )
    print(
        f"a tuple past the NIC side costs {times['bypass'] / times['queue']:.2f} of one that goes round"
    )
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
