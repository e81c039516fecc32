"""`python -m nicforge.floem check|run|survey [--frames CAPTURE] FILE…`, `plan FILE --target TARGET`."""

from __future__ import annotations

import os
import pathlib
import sys
import tempfile
from collections import Counter

from nicforge.flow import FlowError

from . import calls, load
from .lower import Lower
from .memory import Memory
from .model import Unsupported


def _lowered(module, request, folder: pathlib.Path, name: str):
    """A program of values, or else one with addresses."""
    try:
        return Lower(module, request, folder).program(name)
    except (Unsupported, FlowError):
        return Memory(module, request, folder).program(name)


def attempt(path: str, command: str, arguments: list[str], frames=None) -> tuple[str, str]:
    """A verdict on a module, and the reason for what is not right."""
    verdict, note = "not accepted", ""
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
                    lowered = _lowered(module, request, folder, name)
                    calls.build(lowered)
                    lowered.program.check()
                    verdict = "accepted"
                    if command == "plan":
                        print(lowered.program.tool().run("plan", *arguments), end="")
                    if command in ("check", "plan"):
                        continue
                    printed, sent = calls.run(lowered, request, folder, frames)
                    if command == "run":
                        print(" ".join(printed))
                    if frames and any(
                        "floem_from_net" in (e.c or "") for e in module.world.elements
                    ):
                        note = f"packets sent: {sent}"
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
        return verdict, note
    except (Unsupported, FlowError) as error:
        return verdict, str(error)
    except Exception as error:  # What the module itself raises.
        return verdict, f"{type(error).__name__}: {error}"


def main(words: list[str]) -> int:
    frames = None
    if words[1:2] == ["--frames"]:
        frames, words = (words[2:3] or [""])[0], [words[0], *words[3:]]
        if not pathlib.Path(frames).is_file():
            print(f"--frames {frames}: there is no such capture", file=sys.stderr)
            return 2
    if len(words) < 2 or words[0] not in ("check", "run", "survey", "plan"):
        print(
            "usage: python -m nicforge.floem check|run|survey [--frames CAPTURE] FILE…, plan FILE"
            " --target TARGET",
            file=sys.stderr,
        )
        return 2
    paths, arguments = (words[1:2], words[2:]) if words[0] == "plan" else (words[1:], [])
    counts: Counter = Counter()
    status = 0
    for path in paths:
        verdict, why = attempt(path, words[0], arguments, frames)
        counts[verdict] += 1
        status |= verdict in ("wrong", "not accepted") or (verdict == "accepted" and bool(why))
        print(f"{path}: {verdict}{': ' + why if why else ''}")
    if words[0] == "survey":
        print(", ".join(f"{count} {verdict}" for verdict, count in counts.most_common()))
        return 0
    return status


sys.exit(main(sys.argv[1:]))
