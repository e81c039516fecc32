"""What is wrong with a program, with its place in the Python file."""

from __future__ import annotations

import dataclasses
import inspect
import pathlib

HERE = pathlib.Path(__file__).parent


@dataclasses.dataclass(frozen=True)
class Place:
    """A line of a file."""

    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


def caller() -> Place:
    """The line outside this package that is being run."""
    frame = inspect.currentframe()
    while frame is not None and pathlib.Path(frame.f_code.co_filename).parent == HERE:
        frame = frame.f_back
    if frame is None:
        return Place("<unknown>", 0)
    return Place(frame.f_code.co_filename, frame.f_lineno)


class FlowError(Exception):
    """A mistake in a program.

    `str()` is one message: place, element and port if any, reason, remedy.
    """

    def __init__(self, message: str, place: Place | None = None, help: str = ""):
        self.message, self.place, self.help = message, place, help
        where = f"{place}: " if place else ""
        super().__init__(where + message + (f"; {help}" if help else ""))

    def _render_traceback_(self) -> list[str]:
        """What notebooks show: the message has the place, and how this package found it is of no
        use."""
        return [f"{type(self).__name__}: {self}"]


class UnknownPort(FlowError, AttributeError):
    """A port that an element does not have."""
