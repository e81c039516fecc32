"""The `nicforge` command, and its messages with Python's lines."""

from __future__ import annotations

import os
import pathlib
import re
import shutil
import subprocess
import sys
import sysconfig

from .. import native
from . import bodies
from .errors import FlowError
from .temporary import Folder


def find() -> str:
    """The `nicforge` command: $NICFORGE, else what was installed with this package, else on the
    path, else built in this repository."""
    given = os.environ.get("NICFORGE")
    if given:
        return given
    beside = pathlib.Path(sysconfig.get_path("scripts")) / "nicforge"
    if beside.is_file():
        return str(beside)
    on_path = shutil.which("nicforge")
    if on_path:
        return on_path
    for folder in pathlib.Path(__file__).resolve().parents:
        for kind in ("release", "debug"):
            built = folder / "target" / kind / "nicforge"
            if built.is_file():
                return str(built)
    raise FlowError(
        "there is no `nicforge` command", help="build it with `make build`, or name it in $NICFORGE"
    )


#: The compiler's code for a member that is read and that some way has not written.
NOT_WRITTEN = "NF0086"


def _native():
    """The compiled module; FlowError if it is not there."""
    try:
        return native.load()
    except ImportError as error:
        raise FlowError(str(error)) from None


def target_names() -> list[str]:
    """The targets that come with Nicforge."""
    return _native().targets()


class Tool:
    """The command with a program's C in a folder of its own."""

    def __init__(
        self,
        name: str,
        source,
        having=(),
        contents: str = "",
        files=None,
        notes=(),
        refused=None,
        targets=(),
    ):
        self.name, self.source, self.contents = name, source, contents
        #: Where functions are that bodies call and others have.
        self.having = [f"--with={one}" for one in dict.fromkeys(having)]
        #: Files beside the program with functions that it calls: texts by their names.
        self.files: dict[str, str] = files or {}
        #: What there is to say before a command does something.
        self.notes = list(notes)
        #: Elements that are outside the subset, and why they cannot be opaque.
        self.refused = refused or {}
        #: Targets that bodies are for: it is read without, and for each of them.
        self.targets = ["", *targets]
        #: What the compiler said, by what it was asked.
        self._answers: dict[tuple, dict] = {}

    def words(self, command: str, path: str) -> list[str]:
        """What a command needs to know beside the program, which is at `path`."""
        if command in ("bound", "sweep", "targets"):
            return []
        return [
            *self.having,
            *(f"--with={pathlib.Path(path).with_name(name)}" for name in self.files),
        ]

    def say(self) -> None:
        """Says what there is to say."""
        for note in self.notes:
            print(f"note: {note}", file=sys.stderr)

    def with_contents(self, path: str, arguments: list[str]) -> list[str]:
        """A command's arguments, with what memory begins with added to a table file that they
        name."""
        if not self.contents:
            return arguments
        given = list(arguments)
        for at, word in enumerate(given):
            if word == "--tables" and at + 1 < len(given):
                given[at + 1] = self._merged(path, given[at + 1])
            elif word.startswith("--tables="):
                given[at] = "--tables=" + self._merged(path, word.partition("=")[2])
        return given

    def _merged(self, path: str, file: str) -> str:
        if file.endswith(".json"):
            raise FlowError(
                f"{file}: the program has memory with contents, which are added to the tables' own",
                None,
                "write them as TOML",
            )
        try:
            theirs = pathlib.Path(file).read_text()
        except (OSError, UnicodeDecodeError) as error:
            raise FlowError(f"{file}: {getattr(error, 'strerror', None) or error}") from None
        merged = pathlib.Path(path).parent / "given.toml"
        merged.write_text(f"{theirs}\n{self.contents}")
        return str(merged)

    def check(self, target: str | None = None) -> str:
        """What `nicforge check` says; FlowError for the first mistake."""
        return self.checked(target)[0]

    def checked(self, target: str | None) -> tuple[str, bool]:
        """The same, and if the program runs on the target, if one is named."""
        self.check_text()
        with self._folder() as path:
            said = self._call("check", path, *(["--target", target] if target else []))
            return self.located(said.stdout, path), said.returncode == 0

    def check_text(self) -> None:
        """Raises FlowError for the first mistake in the C, and for entries that do not fit."""
        with self._folder() as path:
            for one in self._report(path).get("queues", []):
                self._check_entry(one)
            for target in self.targets:
                self._report(path, target=target)

    def fires(self) -> dict[str, str]:
        """The firing classes of functions that were asked for; FlowError for the first mistake."""
        with self._folder() as path:
            found = self._report(path).get("fires", [])
            return {each["function"]: each["class"].replace("_", "-") for each in found}

    def carried(self) -> dict[str, dict[str, int]]:
        """What each handler of a queue gets beside a packet: names and bytes."""
        with self._folder() as path:
            found = self._report(path).get("queues", [])
            return {
                one["queue"]: {value["name"]: value["bytes"] for value in one["values"]}
                for one in found
            }

    def _check_entry(self, one: dict) -> None:
        queue = self.source.queues.get(one["queue"])
        if queue is None or queue.entry_bytes is None or one["bytes"] <= queue.entry_bytes:
            return
        values = ", ".join(f"`{value['name']}` {value['bytes']}" for value in one["values"])
        raise FlowError(
            f"an entry of {queue} has {one['bytes']} bytes of values ({values}), and room for {queue.entry_bytes}",
            queue.place,
            "use less of them behind the queue, or give it more room (entry_bytes)",
        )

    def cores(self, target: str) -> dict[str, int]:
        """How many units a target has on each device."""
        module = _native()
        try:
            units = module.target(target)["units"]
        except module.Error as error:
            raise FlowError(str(error)) from None
        found: dict[str, int] = {}
        for unit in units:
            found[unit["device"]] = found.get(unit["device"], 0) + unit["count"]
        return found

    def opaque(self, function: str) -> dict:
        """What a function of C outside the subset does with its state; FlowError for the first
        mistake."""
        with self._folder() as path:
            return self._report(path, function=function)

    def outside(self) -> dict:
        """Bodies that have nothing against them but what is outside the subset, by element and
        target: the first of it."""
        found, wrong = {}, set()
        for target in self.targets:
            with self._folder() as path:
                report = self._answer(path, bodies.defines(target))
            for diagnostic in report["diagnostics"]:
                line = (diagnostic.get("primary") or {}).get("line", 0)
                element = self.source.element(line)
                if diagnostic["severity"] != "error" or element is None:
                    continue
                body = element, bodies.chosen(element, target)
                if "outside_subset" in diagnostic and line in self.source.bodies:
                    found.setdefault(body, f"{diagnostic['message']} ({self.source.place(line)})")
                else:
                    wrong.add(body)
        return {body: why for body, why in found.items() if body not in wrong}

    def _answer(
        self, path: str, define: list[str], on: str | None = None, function: str | None = None
    ) -> dict:
        """What there is to say about the C with some macros: of one function if it is named, else
        of all, and whether the target `on` takes it."""
        question = (*define, on, function)
        if question not in self._answers:
            module = _native()
            try:
                # Who has functions of C is no matter here, so nothing is linked.
                self._answers[question] = (
                    module.opaque(path, function, define=define)
                    if function
                    else module.diagnose(path, define=define, target=on)
                )
            except module.Error as error:
                raise FlowError(str(error)) from None
        return self._answers[question]

    def _report(
        self, path: str, target: str = "", on: str | None = None, function: str | None = None
    ) -> dict:
        report = self._answer(path, bodies.defines(target), on, function)
        for diagnostic in report["diagnostics"]:
            if diagnostic["severity"] == "error":
                raise self._error(diagnostic, target)
        return report

    def run(self, command: str, *arguments: str) -> str:
        """Runs a command on the program, once it is checked, and gives its output. FlowError if it
        fails."""
        self.check_text()
        self.say()
        with self._folder() as path:
            done = self._call(command, path, *self.with_contents(path, list(arguments)))
            if done.returncode != 0:
                raise FlowError(self.located(done.stderr.strip() or done.stdout.strip(), path))
            return self.located(done.stdout, path)

    def located(self, text: str, path: str) -> str:
        """What a command said of the C at `path`, with Python's lines where there are some."""

        def place(found: re.Match) -> str:
            written = self.source.place(int(found[1]))
            return str(written) if written else f"{self.name}:{found[1]}{found[2]}"

        return re.sub(re.escape(path) + r":(\d+)(:\d+)?", place, text).replace(path, self.name)

    def check_opaque(self, target: str | None) -> None:
        """Raises FlowError if an opaque element cannot run on a target."""
        if not self.files or target in (None, "all", "interp"):
            return
        with self._folder() as path:
            report = self._report(path, on=target)
        for row in report.get("targets", []):
            for missing in row["missing"]:
                line = re.search(r":(\d+):\d+$", missing["place"])
                element = self.source.element(int(line[1])) if line else None
                if element is not None and any(
                    f"`{pathlib.Path(name).stem}`" in missing["construct"] for name in self.files
                ):
                    raise FlowError(
                        f"{element} is opaque C, which {row['target']} does not run there",
                        self.source.place(int(line[1])),
                        "put it behind a Queue to the host side where that is a process (xdp, dpdk), or keep its body to the "
                        "subset",
                    )

    def _folder(self) -> _Folder:
        return _Folder(self.name, self.source.text, self.contents, self.files)

    def _call(self, command: str, path: str, *arguments: str) -> subprocess.CompletedProcess:
        words = [find(), command, path, *self.words(command, path), *arguments]
        try:
            return subprocess.run(words, capture_output=True, text=True, stdin=subprocess.DEVNULL)
        except OSError as error:
            raise FlowError(
                f"{words[0]}: {error.strerror}", help="name the command in $NICFORGE"
            ) from None

    def _error(self, diagnostic: dict, target: str) -> FlowError:
        primary = diagnostic.get("primary") or {}
        place = self.source.place(primary.get("line", 0))
        # What was made here has no line of its own: the nearest one before it has.
        line = primary.get("line", 0)
        while place is None and line > 1:
            line -= 1
            place = self.source.place(line)
        text = (
            self.source.lines[primary["line"] - 1].strip()
            if primary.get("line") in self.source.bodies
            else ""
        )
        element = self.source.element(line)
        body = (element, bodies.chosen(element, target)) if element is not None else (None, "")
        owner = f"{element}{' for ' + body[1] if body[1] else ''}: " if element is not None else ""
        if body[1] and not text:
            # What is wrong with the body as a whole.
            place = element.lines(target)[-1][1]
        message = owner + diagnostic["message"] + (f" in `{text}`" if text else "")
        more = [*diagnostic.get("notes", []), *diagnostic.get("help", [])]
        if diagnostic["code"] == NOT_WRITTEN and element is not None and not text:
            # In a body of plain C the call of its function reads what the body only writes
            # sometimes.
            more.append(
                "what opaque C writes on some ways only, or by its address, it reads too: it keeps what was there"
            )
        if body in self.refused and "outside_subset" in diagnostic:
            more.append(f"it cannot be opaque C either: {self.refused[body]}")
        return FlowError(message, place, "; ".join(more))


class _Folder:
    def __init__(self, name: str, text: str, contents: str, files: dict[str, str]):
        self.name, self.text, self.contents, self.files = name, text, contents, files

    def __enter__(self) -> str:
        self.folder = Folder("flow")
        path = self.folder.path / f"{self.name}.c"
        path.write_text(self.text)
        for name, text in self.files.items():
            path.with_name(name).write_text(text)
        if self.contents:
            # What lies beside a program by this name is in its tables when it begins.
            path.with_name("tables.toml").write_text(self.contents)
        return str(path)

    def __exit__(self, *_) -> None:
        self.folder.remove()
