"""A flow program as a command."""

from __future__ import annotations

import argparse
import pathlib
import subprocess
import sys

from .errors import FlowError
from .tool import find


def main(program, arguments: list[str] | None = None) -> None:
    """Does what the command line says and exits: 0 ok, 1 the program is at fault, else what `nicforge` exits with."""
    parser = argparse.ArgumentParser(
        description=f"{program.name}, a flow program. All other commands are nicforge's: plan, verify, run, sim, …"
    )
    parser.add_argument("command", help="check, emit (the C), draw (for Graphviz), or a command of nicforge")
    parser.add_argument("-o", metavar="FILE", help="write what emit prints there too; any other command's output")
    options, rest = parser.parse_known_args(arguments)
    try:
        source = program.source()
        target = rest[rest.index("--target") + 1] if "--target" in rest[:-1] else None
        if options.command == "emit":
            if options.o:
                pathlib.Path(options.o).write_text(source.text)
            print(source.text, end="")
        elif options.command == "draw":
            print(program.draw(), end="")
        elif options.command == "check":
            print(program.check(target), end="")
        else:
            program.check_cores(target)
            tool = program.tool()
            output = ["--output", options.o] if options.o else []
            tool.check()
            with tool._folder() as path:
                given = tool.with_contents(path, rest)
                # In the foreground, so that Ctrl-C reaches it and its output comes as it is.
                sys.exit(subprocess.call([find(), options.command, path, *tool.words(options.command), *given, *output]))
    except FlowError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(1)
    except KeyboardInterrupt:
        sys.exit(130)
    sys.exit(0)
