#!/usr/bin/env python3
"""Runs the programs of this kit through a command and compares what it answers.

    run.py 'COMMAND' [PROGRAM ...]

The command gets a program's input.txt on its standard input and answers on its standard output;
README.md has the words. In it, {code} is the folder (or file) with the program's code and {image}
the image in it, if there is one. Exit status: 0 all agree, 1 something differs, 2 wrong usage.
"""

import pathlib
import subprocess
import sys

OUTPUTS = ("send", "stack", "host", "message", "write", "drop")


def read(lines):
    """Outputs by event, entries by table, whether the answer is whole, and tables not to compare.

    Of a table that is spread over several workers, nobody here can say what it holds as a whole:
    `nicforge verify --exec` can.
    """
    outputs, entries, done, left = {}, {}, False, set()
    for line in lines:
        words = line.split()
        if words[:1] != ["nf"] or len(words) < 2:
            continue
        if words[1] in OUTPUTS and len(words) == 5:
            outputs.setdefault(int(words[2]), []).append((words[1], words[3], words[4].lower()))
        elif words[1] == "entry" and len(words) == 9:
            worker, table, detail, key, mask, value, string = [word.lower() for word in words[2:9]]
            entries.setdefault(words[3], {})[(detail, key, mask)] = (value, string)
            if worker != "0":
                left.add(words[3])
        elif words[1] == "no-tables":
            left.add("")
        elif words[1] == "failed":
            sys.stdout.write(line)
        done = done or words[1] == "done"
    return outputs, entries, done, left


def differences(want, got):
    """What differs, a line each."""
    found = [] if got[2] else ["the answer ends before `nf done`"]
    for event in sorted(want[0].keys() | got[0].keys()):
        expected, answered = want[0].get(event, []), got[0].get(event, [])
        if expected != answered:
            found.append(f"event {event}: expected {expected}; got {answered}")
    for table in compared(want, got):
        expected, answered = want[1].get(table, {}), got[1].get(table, {})
        for key in sorted(expected.keys() | answered.keys()):
            if expected.get(key) != answered.get(key):
                found.append(
                    f"{table} {' '.join(key)}: expected {expected.get(key)}; got {answered.get(key)}"
                )
    return found


def compared(want, got):
    """Names of the tables that are compared."""
    return [] if "" in got[3] else sorted((want[1].keys() | got[1].keys()) - got[3])


def main():
    """Runs and compares; prints a line a program."""
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    kit = pathlib.Path(__file__).resolve().parent
    names = sys.argv[2:] or sorted(path.parent.name for path in kit.glob("*/expected.txt"))
    wrong = not names
    for name in names:
        folder = kit / name
        want = read((folder / "expected.txt").read_text().splitlines(keepends=True))
        code = folder / "code"
        command = sys.argv[1].replace("{code}", f"'{code}'").replace("{image}", f"'{code / 'app'}'")
        with open(folder / "input.txt", "rb") as given:
            ran = subprocess.run(
                command, shell=True, stdin=given, stdout=subprocess.PIPE, check=False
            )
        got = read(ran.stdout.decode(errors="replace").splitlines(keepends=True))
        found = differences(want, got)
        events = sum(
            1
            for line in open(folder / "input.txt")
            if line.startswith(("packet", "message", "tick"))
        )
        if not events:
            found.append("nothing to compare: there are no events")
        what = f"{events} events, {len(compared(want, got))} tables"
        print(f"{name}: {'differs' if found else 'agrees'} ({what})", flush=True)
        for line in found[:5]:
            print(f"  {line}")
        wrong = wrong or bool(found)
    sys.exit(1 if wrong else 0)


main()
