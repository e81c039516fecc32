"""What goes wrong in a program ends in one message with its line, never in a traceback through this
package."""

import os
import subprocess
import sys

import pytest
from nicforge.flow import (
    Composite,
    Drop,
    Element,
    FlowError,
    FromNet,
    In,
    Out,
    Program,
    Queue,
    Reply,
    Struct,
    Table,
    packet,
    u32,
)

HERE = os.path.basename(__file__)


class Pass(Element):
    inp = In(pkt=packet)
    out = Out(packet)
    body = "out(pkt);"


def made(**attributes):
    """A program whose element has other attributes."""
    source, each = FromNet(), type("Odd", (Pass,), attributes)()
    source >> each
    each.out >> Reply()
    return Program("odd", source)


@pytest.mark.parametrize(
    "mistake",
    [
        lambda: Element(packet),
        lambda: Drop("nothing", name=True),
        lambda: Drop((), name="shut"),
        lambda: Table("t", "array", u32, "host", 1),
        lambda: Table("t", "array", u32, sys, 1),
        lambda: Table(None, "array", u32, u32, 1),
        lambda: Table(Element, "array", u32, u32, 1),
        lambda: Table("t", "array", u32, u32),
        lambda: Struct((), slot=u32),
        lambda: FromNet() >> Queue,
        lambda: FromNet() >> FromNet,
        lambda: made(tables=(10**30,)).source(),
        lambda: made(tables=tuple("a b")).source(),
        lambda: made(tables=None).source(),
        lambda: made(body=None).source(),
        lambda: made(body=b"out(pkt);").source(),
        lambda: made(fires=7).source(),
        lambda: Program("p", None),
        lambda: Program(7, FromNet()),
        lambda: Program("p", FromNet(), ports="2"),
        lambda: Program("p", FromNet(), wrong=1),
    ],
)
def test_mistakes_are_messages_with_a_line(mistake):
    with pytest.raises(FlowError) as caught:
        mistake()
    assert HERE in str(caught.value), str(caught.value)


def test_a_programs_own_mistake_stays_what_it_is():
    class Own(Composite):
        def configure(self) -> None:
            raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        Own()


def test_uncaught_it_is_one_line(tmp_path):
    script = tmp_path / "wrong.py"
    script.write_text("from nicforge.flow import *\n\nDrop(7)\n")
    path = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    done = subprocess.run(
        [sys.executable, script],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": path},
        check=False,
    )
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1 and f"{script}:3: " in done.stderr, done.stderr
