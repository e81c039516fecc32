"""`python -m nicforge.floem check|run|survey FILE…`, and `plan FILE --target TARGET`."""

from __future__ import annotations

import os
import pathlib
import sys
import tempfile
from collections import Counter

from nicforge.flow import FlowError

from . import calls, load
from .lower import Lower
from .model import Unsupported


def attempt(path: str, command: str, arguments: list[str]) -> tuple[str, str]:
    """A verdict on a module, and the reason for what is not right."""
    verdict = "not accepted"
    try:
        module = load.run(path)
        if not module.requests:
            raise Unsupported("it asks for no program")
        before = os.getcwd()
        os.chdir(module.path.parent)
        try:
            for number, request in enumerate(module.requests):
                verdict = "not accepted"
                with tempfile.TemporaryDirectory(prefix="nicforge-floem-") as made:
                    folder = pathlib.Path(made)
                    name = f"{module.path.stem}_{number}" if number else module.path.stem
                    lowered = Lower(module, request, folder).program(name)
                    if lowered.ticks and len(lowered.ticks) < len(lowered.functions):
                        raise Unsupported("a segment that runs by itself beside functions")
                    lowered.program.check()
                    verdict = "accepted"
                    if command == "plan":
                        print(lowered.program.tool().run("plan", *arguments), end="")
                    if command in ("check", "plan"):
                        continue
                    printed = calls.run(lowered, request, folder)
                    if command == "run":
                        print(" ".join(printed))
                    if request.expected is None:
                        verdict = "ran"
                    elif printed == request.expected:
                        verdict = "right"
                    else:
                        return (
                            "wrong",
                            f"printed {' '.join(printed)}, expected {' '.join(request.expected)}",
                        )
        finally:
            os.chdir(before)
        return verdict, ""
    except (Unsupported, FlowError) as error:
        return verdict, str(error)
    except Exception as error:  # What the module itself raises.
        return verdict, f"{type(error).__name__}: {error}"


def main(words: list[str]) -> int:
    if len(words) < 2 or words[0] not in ("check", "run", "survey", "plan"):
        print(
            "usage: python -m nicforge.floem check|run|survey FILE…, plan FILE --target TARGET",
            file=sys.stderr,
        )
        return 2
    paths, arguments = (words[1:2], words[2:]) if words[0] == "plan" else (words[1:], [])
    counts: Counter = Counter()
    status = 0
    for path in paths:
        verdict, why = attempt(path, words[0], arguments)
        counts[verdict] += 1
        status |= verdict in ("wrong", "not accepted") or bool(why)
        print(f"{path}: {verdict}{': ' + why if why else ''}")
    if words[0] == "survey":
        print(", ".join(f"{count} {verdict}" for verdict, count in counts.most_common()))
        return 0
    return status


sys.exit(main(sys.argv[1:]))
