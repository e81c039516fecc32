#!/usr/bin/env python3
"""Measures how many small mistakes in a crate its own tests find.

cargo-mutants lists the mistakes that can be made. A random sample of them is made one after the
other, in a copy of the repository, and the crate's tests run on each. A mistake counts as found if
a test fails or does not end. What does not compile is left out: the compiler found it.

    scripts/mutants.py --seed 1 --count 75 ir frontend passes codegen

Results are kept in target/mutants/SEED.jsonl, so the same command goes on where it ended.
"""

import argparse
import json
import math
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def fail(message: str) -> None:
    """Ends with one message."""
    sys.exit(f"mutants: {message}")


def listed(crate: str) -> list[dict]:
    """All mistakes that can be made in a crate."""
    command = ["cargo", "mutants", "--list", "--json", "-p", f"nicforge-{crate}"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        fail(
            f"`{' '.join(command)}` failed; `cargo install --locked cargo-mutants` installs it\n{done.stderr}"
        )
    return json.loads(done.stdout)


def made(source: str, span: dict, replacement: str) -> str:
    """The source with the text between two places (line and column from 1) replaced."""
    lines = source.splitlines(keepends=True)
    start, end = span["start"], span["end"]
    before = "".join(lines[: start["line"] - 1]) + lines[start["line"] - 1][: start["column"] - 1]
    after = lines[end["line"] - 1][end["column"] - 1 :] + "".join(lines[end["line"] :])
    return before + replacement + after


def finish(command: list[str], folder: Path, limit: float) -> tuple[int | None, str]:
    """Runs a command; gives its status, none if it took longer than `limit` seconds, and its
    output."""
    process = subprocess.Popen(
        command,
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        output, _ = process.communicate(timeout=limit)
        return process.returncode, output
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        return None, ""


def tried(mutant: dict, folder: Path, limit: float) -> str:
    """Makes one mistake, runs the tests of its crate and takes it back; `found`, `missed` or `no
    build`."""
    path = folder / mutant["file"]
    right = path.read_text()
    path.write_text(made(right, mutant["span"], mutant["replacement"]))
    try:
        package = mutant["package"]
        status, _ = finish(["cargo", "test", "-q", "--no-run", "-p", package], folder, 1800)
        if status != 0:
            return "no build"
        status, _ = finish(["cargo", "test", "-q", "-p", package], folder, limit)
        return "missed" if status == 0 else "found"
    finally:
        path.write_text(right)


def wilson(found: int, count: int) -> tuple[float, float]:
    """Wilson's 95 % interval of a share (E. B. Wilson, JASA 22, 1927)."""
    if count == 0:
        return 0.0, 1.0
    z, share = 1.96, found / count
    middle = share + z * z / (2 * count)
    half = z * math.sqrt(share * (1 - share) / count + z * z / (4 * count * count))
    return (middle - half) / (1 + z * z / count), (middle + half) / (1 + z * z / count)


def copy(folder: Path) -> None:
    """Brings the files of the repository, as they are now, into a folder of their own."""
    names = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True
    ).stdout
    for name in names.decode().split("\0"):
        source, to = ROOT / name, folder / name
        if (
            name
            and source.is_file()
            and not (to.is_file() and to.read_bytes() == source.read_bytes())
        ):
            to.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, to)
            shutil.copymode(source, to)


def report(crates: list[str], results: dict[str, dict]) -> None:
    """Prints the share found by crate, and what no test found."""
    print(f"{'crate':10} {'found':>6} {'of':>5} {'share':>7}  95 % interval")
    for crate in crates:
        own = [
            one for one in results.values() if one["crate"] == crate and one["result"] != "no build"
        ]
        found = sum(one["result"] == "found" for one in own)
        low, high = wilson(found, len(own))
        share = found / len(own) if own else 0
        print(f"{crate:10} {found:6} {len(own):5} {share:7.1%}  {low:.1%} to {high:.1%}")
    for name, one in results.items():
        if one["result"] == "missed":
            print(f"missed: {name}")


def main() -> None:
    """Samples, tries and reports."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("crates", nargs="+", help="names without `nicforge-`")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=75, help="mistakes in each crate")
    parser.add_argument(
        "--minutes", type=float, default=math.inf, help="end behind so many minutes"
    )
    given = parser.parse_args()
    began = time.monotonic()
    work = ROOT / "target" / "mutants"
    state = work / f"{given.seed}.jsonl"
    folder = work / "copy"
    copy(folder)
    results = {}
    if state.is_file():
        results = {one["name"]: one for one in map(json.loads, state.read_text().splitlines())}
    chosen = []
    for crate in given.crates:
        mutants = listed(crate)
        sample = random.Random(f"{given.seed} {crate}").sample(
            mutants, min(given.count, len(mutants))
        )
        chosen += [(number, crate, mutant) for number, mutant in enumerate(sample)]
    print(
        f"seed {given.seed}: {len(chosen)} mistakes, results in {state.relative_to(ROOT)}",
        flush=True,
    )
    # All crates in turn, so that an early end leaves something for each.
    for _, crate, mutant in sorted(chosen, key=lambda one: (one[0], given.crates.index(one[1]))):
        if mutant["name"] in results:
            continue
        if time.monotonic() - began > given.minutes * 60:
            break
        start = time.monotonic()
        result = tried(mutant, folder, 600)
        one = {"name": mutant["name"], "crate": crate, "result": result}
        results[mutant["name"]] = one
        with state.open("a") as file:
            file.write(json.dumps(one) + "\n")
        print(f"{result:8} {time.monotonic() - start:5.0f} s  {mutant['name']}", flush=True)
    report(
        given.crates,
        {
            mutant["name"]: results[mutant["name"]]
            for _, _, mutant in chosen
            if mutant["name"] in results
        },
    )


if __name__ == "__main__":
    main()
