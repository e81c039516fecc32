"""Runs the tests that scripts/test.sh has built, several at a time, and says what each took.

    tests.py [--passed FILE] LOGS RUST.json [NAME=FOLDER:COMMAND ...]

RUST.json is what `cargo test --no-run --message-format=json` printed. Each test program, and each
command, is one job. Its output goes to LOGS/NAME.log and is shown only if it fails.

A job that prints nothing for $NICFORGE_JOB_MINUTES (40 if not set), so that no test of it ends, is
ended with all that it started, and fails: its log says which tests had not ended and what was
running then.

With --passed, jobs that FILE names are left out, and those that pass are added to it.
"""

import argparse
import concurrent.futures
import json
import os
import pathlib
import re
import shlex
import signal
import subprocess
import sys
import threading
import time

# Jobs that take minutes go first, so that none of them is what all wait for at the end.
LONG = (
    "hardware-library",
    "flow-programs",
    "cli-flow",
    "tests-fpga",
    "tests-generated",
    "tests-plans",
    "cli-spin",
    "run-spin",
    "cli-hardware",
)
# The closing lines of libtest and of pytest.
RUST = re.compile(r"^test result: \w+\. (\d+) passed; (\d+) failed; (\d+) ignored", re.M)
PYTEST = re.compile(r"^(?=.*\d+ (?:passed|failed|skipped))(?:=+ )?(.*) in [\d.]+s", re.M)


# Far above what any test takes on a busy machine, and below what CI waits for all of them.
LIMIT = 60 * float(os.environ.get("NICFORGE_JOB_MINUTES", "40"))


def kill(process, out):
    """Ends a job and what it started; says before what was running."""
    table = subprocess.run(
        ["ps", "-eo", "pid,ppid,sess,stat,etimes,args"], capture_output=True, text=True
    )
    rows = [line.split(None, 5) for line in table.stdout.splitlines()[1:]]
    family = {str(process.pid)}
    # Parents stand before their children, except where numbers began again.
    for _ in range(2):
        family |= {row[0] for row in rows if row[1] in family or row[2] in family}
    running = [" ".join(row) for row in rows if row[0] in family]
    text = (
        f"\nended, silent for {LIMIT / 60:.0f} minutes; was running:\n" + "\n".join(running) + "\n"
    )
    out.write(text.encode())
    out.flush()
    for pid in family:
        try:
            os.kill(int(pid), signal.SIGKILL)
        except ProcessLookupError:
            pass


def watch(process, out, ended):
    """Ends a job once its output has not grown for so long."""
    size, since = -1, 0.0
    while not ended.wait(5):
        now, grown = time.monotonic(), os.fstat(out.fileno()).st_size
        if grown != size:
            size, since = grown, now
        elif now - since > LIMIT:
            kill(process, out)
            return


class Job:
    """A test program or a command, and after its end what came of it."""

    def __init__(self, name, folder, command):
        self.name, self.folder, self.command = name, folder, command
        self.seconds, self.cpu, self.ok = 0.0, 0.0, False
        self.passed, self.failed, self.skipped = 0, 0, 0

    def run(self, logs):
        start = time.monotonic()
        log = logs / f"{self.name.replace(' ', '-')}.log"
        with open(log, "ab") as out:
            out.truncate(0)
            process = subprocess.Popen(
                self.command,
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            ended = threading.Event()
            watching = threading.Thread(target=watch, args=(process, out, ended))
            watching.start()
            # Of what the job started, only what it waited for is counted.
            _, status, used = os.wait4(process.pid, 0)
            ended.set()
            watching.join()
            process.returncode = os.waitstatus_to_exitcode(status)
        self.seconds = time.monotonic() - start
        self.cpu = used.ru_utime + used.ru_stime
        text = log.read_text(errors="replace")
        for passed, failed, ignored in RUST.findall(text):
            self.passed, self.failed = self.passed + int(passed), self.failed + int(failed)
            self.skipped += int(ignored)
        for line in [] if RUST.search(text) else PYTEST.findall(text):
            count = {word: int(n) for n, word in re.findall(r"(\d+) (\w+)", line)}
            self.passed += count.get("passed", 0)
            self.failed += count.get("failed", 0) + count.get("errors", 0)
            self.skipped += count.get("skipped", 0)
        # A test that finds something missing says so and ends; it is no test passed.
        unavailable = len(re.findall(r"^(?:skipped|SKIPPED): ", text, re.M))
        self.passed, self.skipped = max(0, self.passed - unavailable), self.skipped + unavailable
        self.ok = process.returncode == 0 and not self.failed
        # A command without a result line is a test of its own.
        if not RUST.search(text) and not PYTEST.search(text):
            self.passed, self.failed = int(self.ok), int(not self.ok)
        elif not self.ok and not self.failed:
            self.failed = 1
        return self, text


def rust_jobs(messages):
    """The test programs that cargo built, each with its package's folder."""
    for line in pathlib.Path(messages).read_text().splitlines():
        message = json.loads(line) if line.startswith("{") else {}
        program = message.get("executable")
        if (
            message.get("reason") != "compiler-artifact"
            or not program
            or not message["profile"]["test"]
        ):
            continue
        folder = pathlib.Path(message["manifest_path"]).parent
        target = message["target"]
        unit = "test" not in target["kind"]
        name = f"{folder.name}-{'unit' if unit else target['name']}"
        yield Job(name, folder, [program, "--show-output"])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--passed", type=pathlib.Path)
    parser.add_argument("logs", type=pathlib.Path)
    parser.add_argument("messages")
    parser.add_argument("commands", nargs="*")
    given = parser.parse_args()
    logs = given.logs
    logs.mkdir(parents=True, exist_ok=True)
    jobs = list(rust_jobs(given.messages))
    for text in given.commands:
        name, rest = text.split("=", 1)
        folder, command = rest.split(":", 1)
        jobs.append(Job(name, folder, shlex.split(command)))
    if not jobs:
        sys.exit(f"tests.py: {given.messages} names no test program")
    if given.passed and given.passed.is_file():
        before = set(given.passed.read_text().splitlines())
        known = [job.name for job in jobs if job.name in before]
        jobs = [job for job in jobs if job.name not in before]
        if known:
            print(f"passed before: {', '.join(known)}", flush=True)
    jobs.sort(key=lambda job: (not job.name.startswith(LONG), job.name))
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count() or 2) as pool:
        running = [pool.submit(job.run, logs) for job in jobs]
        for future in concurrent.futures.as_completed(running):
            job, text = future.result()
            print(f"{'ok' if job.ok else 'FAILED':6} {job.name}: {job.seconds:.0f} s", flush=True)
            if not job.ok:
                print(text[-20000:], flush=True)
            elif given.passed:
                with given.passed.open("a") as file:
                    file.write(job.name + "\n")
    print(f"\n{'step':34} {'seconds':>8} {'CPU':>7} {'passed':>7} {'skipped':>8}")
    for job in sorted(jobs, key=lambda job: -job.seconds):
        print(
            f"{job.name:34} {job.seconds:8.1f} {job.cpu:7.1f} {job.passed:7} {job.skipped:8}"
            + ("" if job.ok else "  FAILED")
        )
    total = [sum(getattr(job, what) for job in jobs) for what in ("passed", "failed", "skipped")]
    print("\n{} passed, {} failed, {} skipped".format(*total))
    sys.exit(0 if all(job.ok for job in jobs) else 1)


main()
