#!/usr/bin/env python3
"""Measures how many small mistakes in a crate its own tests find.

cargo-mutants lists the mistakes that can be made. A random sample of them is built into one copy of
the repository, and the environment says which one a test program runs with ("mutant schemata",
Untch, Offutt and Harrold, ISSTA 1993). A mistake counts as found if a test fails, or takes many
times longer than without it. A test that does not get to the place of a mistake cannot find it and
is not run. What the compiler refuses is left out: the compiler found it.

    scripts/mutants.py --seed 1 --count 75 codegen passes frontend ir

Results are kept in target/mutants/SEED.jsonl, so the same command goes on where it ended.
"""

import argparse
import concurrent.futures
import json
import math
import os
import random
import re
import resource
import signal
import subprocess
import sys
import tempfile
import threading
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
WORK = ROOT / "target" / "mutants"
COPY = WORK / "copy"
PARSER = ["tree-sitter==0.26.1", "tree-sitter-rust==0.24.2"]
# Whose tests are run, where a crate's own are not all that is meant to find mistakes in it.
TESTS = {"ir": ["ir", "passes", "frontend"]}
# Built with optimisation here, because their tests run so often.
SLOW = ["codegen"]
# Behind the last line of each crate's lib.rs.
CHOSEN = b"""
/// Whether the environment asks for this mistake. If it asks for none, notes that this one could
/// have been made.
#[inline]
pub(crate) fn mutant(number: u32) -> bool {
    static CHOSEN: std::sync::OnceLock<Option<u32>> = std::sync::OnceLock::new();
    let read = || std::env::var("NICFORGE_MUTANT").ok()?.parse().ok();
    match CHOSEN.get_or_init(read) {
        Some(chosen) => *chosen == number,
        None => reached(number),
    }
}

fn reached(number: u32) -> bool {
    use std::collections::BTreeSet;
    static SEEN: std::sync::Mutex<BTreeSet<u32>> = std::sync::Mutex::new(BTreeSet::new());
    if let Some(path) = std::env::var_os("NICFORGE_REACHED")
        && SEEN.lock().unwrap().insert(number)
    {
        let mut file = std::fs::OpenOptions::new().append(true).open(path).unwrap();
        std::io::Write::write_all(&mut file, format!("{number}\\n").as_bytes()).unwrap();
    }
    false
}
"""


def fail(message: str) -> None:
    """Ends with one message."""
    sys.exit(f"mutants: {message}")


def own_python() -> None:
    """Goes on in an environment that has a parser of Rust, made the first time."""
    place = WORK / "python"
    if Path(sys.prefix) == place:
        return
    python = place / "bin" / "python"
    if not (place / "complete").is_file():
        venv.create(place, with_pip=True)
        command = [python, "-m", "pip", "install", "-q", "--disable-pip-version-check", *PARSER]
        if subprocess.run(command, check=False).returncode != 0:
            fail(f"pip could not install {' '.join(PARSER)}")
        (place / "complete").touch()
    os.execv(python, [python, *sys.argv])


def listed(crate: str) -> list[dict]:
    """All mistakes that can be made in a crate."""
    command = ["cargo", "mutants", "--list", "--json", "-p", f"nicforge-{crate}"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        fail(
            f"`{' '.join(command)}` failed; "
            f"`cargo install --locked cargo-mutants` installs it\n{done.stderr}"
        )
    return json.loads(done.stdout)


def sampled(seed: int, count: int, crates: list[str]) -> list[dict]:
    """A random sample of the mistakes in each crate, numbered."""
    chosen = []
    for crate in crates:
        mutants = listed(crate)
        sample = random.Random(f"{seed} {crate}").sample(mutants, min(count, len(mutants)))
        chosen += [mutant | {"crate": crate} for mutant in sample]
    return [mutant | {"number": number} for number, mutant in enumerate(chosen)]


def place(source: bytes, mutant: dict) -> tuple[int, int]:
    """Where the text that a mistake replaces begins and ends, in bytes."""
    lines = source.decode().split("\n")

    def offset(at: dict) -> int:
        before = [*lines[: at["line"] - 1], lines[at["line"] - 1][: at["column"] - 1]]
        return len("\n".join(before).encode())

    return offset(mutant["span"]["start"]), offset(mutant["span"]["end"])


def alone(source: bytes, mutant: dict) -> bytes:
    """The source with one mistake in it."""
    start, end = place(source, mutant)
    return source[:start] + mutant["replacement"].encode() + source[end:]


def around(tree, source: bytes, mutant: dict) -> tuple[int, int, bytes, bytes] | None:
    """Where the code that a mistake changes begins and ends, and what goes before and behind it so
    that the mistake can be chosen at run time; none for `&&` between patterns, which is no
    expression."""
    start, end = place(source, mutant)
    replacement = mutant["replacement"].encode()
    chosen = b"crate::mutant(%d)" % mutant["number"]
    if mutant["genre"] == "FnValue":
        return start, end, b"if %s { return %s; } " % (chosen, replacement), b""
    node = tree.root_node.descendant_for_byte_range(start, end)
    if mutant["genre"] == "MatchArm":
        while node.type != "match_arm":
            node = node.parent
        pattern = node.child_by_field_name("pattern")
        return pattern.start_byte, pattern.end_byte, b"", b" if !%s" % chosen
    enclosing = {
        "BinaryOperator": ("binary_expression", "compound_assignment_expr"),
        "UnaryOperator": ("unary_expression",),
        "StructField": ("struct_expression",),
        "MatchArmGuard": (node.type,),
    }[mutant["genre"]]
    while node and node.type not in enclosing:
        node = node.parent
    if not node:
        return None
    wrong = source[node.start_byte : start] + replacement + source[end : node.end_byte]
    return node.start_byte, node.end_byte, b"(if %s { %s } else { " % (chosen, wrong), b" })"


def schema(parser, source: bytes, mutants: list[dict]) -> bytes:
    """The source with all these mistakes, each to be chosen at run time. Comments say where each
    begins and ends."""
    tree = parser.parse(source)
    inserted = []
    for mutant in mutants:
        found = around(tree, source, mutant)
        if not found:
            continue
        start, end, before, behind = found
        number, length = mutant["number"], end - start
        # At one place first what ends there, the inner before the outer, then what begins there.
        inserted.append((start, 1, -length, number, b"/*m%d*/%s" % (number, before)))
        inserted.append((end, 0, length, -number, b"%s/*%dm*/" % (behind, number)))
    text, done = b"", 0
    for at, _, _, _, more in sorted(inserted):
        text, done = text + source[done:at] + more, at
    return text + source[done:]


class Copy:
    """A copy of the repository with mistakes in it."""

    def __init__(self, mutants: list[dict]) -> None:
        import tree_sitter_rust
        from tree_sitter import Language, Parser

        self.parser = Parser(Language(tree_sitter_rust.language()))
        self.mutants = mutants
        names = subprocess.run(
            ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True
        ).stdout
        paths = [name for name in names.decode().split("\0") if (ROOT / name).is_file()]
        self.right = {name: (ROOT / name).read_bytes() for name in paths if name}
        self.wrong = self.right

    def write(self, built_in: set[int], only: dict | None = None) -> None:
        """Writes all files: with these mistakes to choose from, and one that is always there."""
        texts = dict(self.right)
        for name in {mutant["file"] for mutant in self.mutants}:
            mutants = [m for m in self.mutants if m["file"] == name and m["number"] in built_in]
            texts[name] = schema(self.parser, self.right[name], mutants)
        if only:
            texts[only["file"]] = alone(self.right[only["file"]], only)
        for crate in {mutant["crate"] for mutant in self.mutants}:
            texts[f"crates/{crate}/src/lib.rs"] += CHOSEN
        for name, text in texts.items():
            path = COPY / name
            if not (path.is_file() and path.read_bytes() == text):
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(text)
                path.chmod((ROOT / name).stat().st_mode)
        self.wrong = texts

    def cargo(self, command: list[str], crates: list[str]) -> tuple[bool, list[dict]]:
        """Runs cargo in the copy; gives whether it succeeded, and its messages."""
        packages = [word for crate in crates for word in ("-p", f"nicforge-{crate}")]
        done = subprocess.run(
            ["cargo", *command, "-q", "--message-format=json", *packages],
            cwd=COPY,
            env=os.environ | {"CARGO_TARGET_DIR": str(WORK / "target")},
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            check=False,
        )
        return done.returncode == 0, [json.loads(line) for line in done.stdout.splitlines()]

    def blamed(self, messages: list[dict]) -> set[int]:
        """The mistakes that the compiler's errors are in: the innermost around each."""
        found = set()
        for message in messages:
            error = message.get("message", {})
            if message["reason"] != "compiler-message" or error["level"] != "error":
                continue
            for span in error["spans"]:
                text = self.wrong.get(span["file_name"], b"")
                marks = [int(number) for number in re.findall(rb"/\*m(\d+)\*/", text)]
                around = []
                for number in marks:
                    start, end = text.index(b"/*m%d*/" % number), text.index(b"/*%dm*/" % number)
                    if start <= span["byte_start"] and span["byte_end"] <= end:
                        around.append((end - start, number))
                if span["is_primary"]:
                    found |= {min(around)[1]} if around else set(marks)
        return found

    def build_all(self, crates: list[str]) -> set[int]:
        """Builds in as many mistakes as the compiler takes together; gives which."""
        built_in = {mutant["number"] for mutant in self.mutants}
        while True:
            self.write(built_in)
            marks = (re.findall(rb"/\*m(\d+)\*/", text) for text in self.wrong.values())
            built_in = {int(number) for found in marks for number in found}
            built, messages = self.cargo(["check"], crates)
            if built:
                return built_in
            blamed = self.blamed(messages) & built_in
            if not blamed:
                fail(f"the copy in {COPY} does not compile")
            built_in -= blamed

    def programs(self, crates: list[str]) -> list[dict]:
        """Builds the test programs of some crates."""
        optimised = [f"--config=profile.dev.package.nicforge-{crate}.opt-level=1" for crate in SLOW]
        built, messages = self.cargo(["test", "--no-run", *optimised], crates)
        if not built:
            fail(f"the tests in {COPY} do not compile")
        found = []
        for message in messages:
            if message["reason"] == "compiler-artifact" and message["executable"]:
                folder = Path(message["manifest_path"]).parent
                if folder.name in crates:
                    name = f"{folder.name} {message['target']['name']}"
                    command = [message["executable"]]
                    program = {"command": command, "folder": folder, "crate": folder.name}
                    found.append(program | {"name": name})
        return found


def run(program: dict, chosen: dict[str, str]) -> tuple[str | None, float]:
    """Runs a test program with a mistake, or none, up to the first failure; gives what failed, if
    anything, and the seconds of processor time until then."""
    limit = program.get("limit", 600)

    def limits() -> None:
        os.nice(5)
        resource.setrlimit(resource.RLIMIT_CPU, (limit, limit))
        resource.setrlimit(resource.RLIMIT_AS, (6 << 30, 6 << 30))

    process = subprocess.Popen(
        program["command"],
        cwd=program["folder"],
        env=os.environ
        | {"NICFORGE_STRICT": "1", "CARGO_MANIFEST_DIR": str(program["folder"])}
        | chosen,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        errors="replace",
        start_new_session=True,
        preexec_fn=limits,
    )
    stop = lambda: os.killpg(process.pid, signal.SIGKILL)  # noqa: E731
    timer = threading.Timer(10 * limit, stop)
    timer.start()
    failed = None
    for line in process.stdout:
        if line.endswith("... FAILED\n"):
            failed = line.split()[1]
            stop()
            break
    _, status, used = os.wait4(process.pid, 0)
    timer.cancel()
    process.stdout.close()
    process.returncode = status
    if failed is None and os.WIFSIGNALED(status):
        slow = os.WTERMSIG(status) in (signal.SIGXCPU, signal.SIGKILL)
        failed = "time" if slow else f"signal {os.WTERMSIG(status)}"
    elif failed is None and status != 0:
        failed = "status"
    return failed, used.ru_utime + used.ru_stime


def measured(program: dict) -> dict:
    """A test program with the time that it takes and the mistakes that it gets to."""
    with tempfile.NamedTemporaryFile() as reached:
        failed, seconds = run(program, {"NICFORGE_REACHED": reached.name})
        numbers = {int(number) for number in reached.read().split()}
    if failed:
        fail(f"{program['name']} fails without a mistake: {failed}")
    print(f"{seconds:7.1f} s  {program['name']}", flush=True)
    return program | {"seconds": seconds, "limit": int(10 + 5 * seconds), "reached": numbers}


def parts(program: dict) -> list[dict]:
    """A test program; one of few tests as these, as they take long."""
    listed = subprocess.run(
        [*program["command"], "--list", "--format=terse"],
        cwd=program["folder"],
        capture_output=True,
        text=True,
        check=True,
    )
    tests = [line.removesuffix(": test") for line in listed.stdout.splitlines()]
    if len(tests) > 8:
        return [program]
    command, name = program["command"], program["name"]
    return [
        program | {"command": [*command, "--exact", test], "name": f"{name} {test}"}
        for test in tests
    ]


def tried(number: int | None, programs: list[dict]) -> dict:
    """Runs tests on a mistake that is chosen, or on one that is always there; gives the first that
    fails, if any."""
    for program in programs:
        if number is None:
            by, _ = run(program, {})
        elif number in program["reached"]:
            by, _ = run(program, {"NICFORGE_MUTANT": str(number)})
        else:
            continue
        if by:
            return {"result": "found", "by": f"{program['name']} {by}"}
    return {"result": "missed"}


def wilson(found: int, count: int) -> tuple[float, float]:
    """Wilson's 95 % interval of a share (E. B. Wilson, JASA 22, 1927)."""
    if count == 0:
        return 0.0, 1.0
    z, share = 1.96, found / count
    middle = share + z * z / (2 * count)
    half = z * math.sqrt(share * (1 - share) / count + z * z / (4 * count * count))
    return (middle - half) / (1 + z * z / count), (middle + half) / (1 + z * z / count)


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
    parser.add_argument("--again", action="store_true", help="try again what no test found")
    given = parser.parse_args()
    own_python()
    state = WORK / f"{given.seed}.jsonl"
    results = {}
    if state.is_file():
        results = {one["name"]: one for one in map(json.loads, state.read_text().splitlines())}
    if given.again:
        results = {name: one for name, one in results.items() if one["result"] != "missed"}
    chosen = sampled(given.seed, given.count, given.crates)
    left = [mutant for mutant in chosen if mutant["name"] not in results]
    print(f"seed {given.seed}: {len(chosen)} mistakes, {len(left)} to try, results in {state}")

    def keep(mutant: dict, result: dict) -> None:
        one = {"name": mutant["name"], "crate": mutant["crate"]} | result
        results[mutant["name"]] = one
        with state.open("a") as file:
            file.write(json.dumps(one) + "\n")
        print(f"{result['result']:8}  {mutant['name']}  {result.get('by', '')}", flush=True)

    if left:
        copy = Copy(chosen)
        tests = {crate: TESTS.get(crate, [crate]) for crate in given.crates}
        needed = sorted({name for crate in tests for name in tests[crate]} | set(given.crates))
        built_in = copy.build_all(needed)
        programs = copy.programs(needed)
        order = {}
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            measures = [
                pool.submit(measured, part) for program in programs for part in parts(program)
            ]
            quick = sorted((one.result() for one in measures), key=lambda one: one["seconds"])
            for crate, names in tests.items():
                # A crate's own tests first, then those of others; the fastest first.
                own = [one for one in quick if one["crate"] in names]
                order[crate] = sorted(own, key=lambda one: names.index(one["crate"]))
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            runs = {
                pool.submit(tried, mutant["number"], order[mutant["crate"]]): mutant
                for mutant in left
                if mutant["number"] in built_in
            }
            for one in concurrent.futures.as_completed(runs):
                keep(runs[one], one.result())
        for mutant in left:
            if mutant["number"] in built_in:
                continue
            copy.write(built_in, mutant)
            if not copy.cargo(["check"], [mutant["crate"]])[0]:
                keep(mutant, {"result": "no build"})
                continue
            copy.programs(tests[mutant["crate"]])
            keep(mutant, tried(None, order[mutant["crate"]]))
    report(
        given.crates,
        {mutant["name"]: results[mutant["name"]] for mutant in chosen if mutant["name"] in results},
    )


if __name__ == "__main__":
    main()
