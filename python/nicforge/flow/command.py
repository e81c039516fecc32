"""A flow program as a command."""

from __future__ import annotations

import argparse
import pathlib
import subprocess
import sys

from .errors import FlowError
from .tool import find


def _told(words: list[str], tool, path: str) -> int:
    """Runs a command and prints what it says with Python's lines; its exit status."""
    if words[1] in ("bound", "build"):
        done = subprocess.run(words, capture_output=True, text=True, stdin=subprocess.DEVNULL)
        print(tool.located(done.stdout, path), end="")
        print(tool.located(done.stderr, path), end="", file=sys.stderr)
        return done.returncode
    # What these say of their progress comes as it is.
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
        while True:
            try:
                for line in process.stdout:
                    print(tool.located(line, path), end="", flush=True)
                return process.wait()
            except KeyboardInterrupt:
                # The command got it too, and says what it has so far.
                continue


def _emit(program, source, to: str | None) -> None:
    """Prints a program's C and writes it to a file, with the files of opaque elements beside it."""
    try:
        tool = program.tool()
    except FlowError:
        # What is wrong with it the other commands say; here it can be looked at.
        tool = None
    if tool is not None:
        source = tool.source
        tool.say()
    print(source.text, end="")
    if to:
        pathlib.Path(to).write_text(source.text)
        for name, text in (tool.files if tool is not None else {}).items():
            pathlib.Path(to).with_name(name).write_text(text)


def main(program, arguments: list[str] | None = None) -> None:
    """Does what the command line says and exits: 0 ok, 1 the program is at fault, else what
    `nicforge` exits with."""
    parser = argparse.ArgumentParser(
        description=f"{program.name}, a flow program. All other commands are nicforge's: plan, verify, run, sim, …"
    )
    parser.add_argument(
        "command", help="check, emit (the C), draw (for Graphviz), or a command of nicforge"
    )
    parser.add_argument(
        "-o", metavar="FILE", help="write what emit prints there too; any other command's output"
    )
    options, rest = parser.parse_known_args(arguments)
    try:
        source = program.source()
        target = rest[rest.index("--target") + 1] if "--target" in rest[:-1] else None
        if options.command == "emit":
            _emit(program, source, options.o)
        elif options.command == "draw":
            print(program.draw(), end="")
        elif options.command == "check":
            program.check_cores(target)
            tool = program.tool()
            said, runs = tool.checked(target)
            print(said, end="")
            tool.say()
            if not runs:
                sys.exit(1)
        else:
            program.check_target(target)
            tool = program.tool()
            output = ["--output", options.o] if options.o else []
            tool.check_text()
            tool.say()
            with tool._folder() as path:
                given = tool.with_contents(path, rest)
                words = [
                    find(),
                    options.command,
                    path,
                    *tool.words(options.command, path),
                    *given,
                    *output,
                ]
                # In the foreground, so that Ctrl-C reaches it; a live run's output comes as it is.
                sys.exit(
                    subprocess.call(words) if options.command == "run" else _told(words, tool, path)
                )
    except FlowError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(1)
    except KeyboardInterrupt:
        sys.exit(130)
    sys.exit(0)
