"""Programs of one's own as part of a flow program: docs/flow.md, examples/flow/phonebook."""

import os
import pathlib
import subprocess
import sys

import pytest
from nicforge.flow import (
    CallableSegment,
    Discard,
    Element,
    FlowError,
    FromNet,
    In,
    Out,
    Program,
    Struct,
    packet,
    u32,
)

FOLDER = pathlib.Path(__file__).resolve().parents[2] / "examples/flow/phonebook"
Ask, Say = Struct("ask", number=u32), Struct("say", number=u32)


class Asks(Element):
    inp = In(pkt=packet)
    ask = Out(Ask)
    body = 'struct ask asking = {7};\nask(asking);\nnf_drop(pkt, "asked");'


def asking(*sources, to):
    network, asks = FromNet(), Asks()
    network >> asks
    asks.ask >> to
    return Program("asks", network, *sources, ports=1)


def phonebook(*arguments):
    words = [sys.executable, FOLDER / "phonebook.py", *arguments]
    return subprocess.run(
        words, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=600
    )


def test_what_it_receives_are_messages_to_the_host_side():
    program = asking(to=CallableSegment(receives=Ask))
    assert "nf_host_msg(message);" in program.source().text
    assert program.check("dpdk").startswith("asks: ")


def test_what_it_sends_begins_a_program():
    service = CallableSegment(receives=Ask, sends=Say)
    service.sent >> Discard(Say)
    assert "void host_send(struct say message)" in asking(service, to=service).source().text


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: CallableSegment(), "neither receives nor sends"),
        (lambda: CallableSegment(receives=u32), "receives no struct"),
        (
            lambda: asking(CallableSegment(receives=Ask), to=CallableSegment(receives=Ask)),
            "sends nothing",
        ),
        (lambda: CallableSegment(sends=Say).entry(), "has no input"),
        (lambda: asking(to=CallableSegment(receives=Say)), "gives (struct ask), but"),
    ],
)
def test_mistakes_have_a_place(make, message):
    with pytest.raises(FlowError, match=r"test_callable\.py:\d+: .*") as found:
        make()
    assert message in str(found.value)


def test_two_that_receive_are_too_many():
    first, second, network = (
        CallableSegment(receives=Ask, name="first"),
        CallableSegment(receives=Ask, name="second"),
        FromNet(),
    )
    one, two = Asks(), Asks()
    one.ask >> first
    two.ask >> second

    class Both(Element):
        inp = In(pkt=packet)
        a = Out(packet)
        b = Out(packet)
        body = "if (nf_len(pkt) > 60)\n    a(pkt);\nelse\n    b(pkt);"

    both = Both()
    network >> both
    both.a >> one
    both.b >> two
    with pytest.raises(FlowError, match="both receive"):
        Program("twice", network)


def test_the_header_is_of_the_program(tmp_path):
    done = phonebook("build", "--emit", "host", "-o", tmp_path)
    assert done.returncode == 0, done.stderr
    assert {path.name for path in tmp_path.iterdir()} == {
        "phonebook_host.h",
        "nf_attach.h",
        "nf_link.h",
    }
    # It and what it includes is C and C++.
    for compiler in ("gcc", "g++"):
        words = [
            compiler,
            "-Wall",
            "-Werror",
            "-fsyntax-only",
            "-x",
            "c++" if compiler == "g++" else "c",
        ]
        subprocess.run([*words, tmp_path / "phonebook_host.h"], check=True)


def test_nothing_for_a_host_side_is_said():
    sources = FOLDER.parent / "sources/sources.py"
    words = [sys.executable, sources, "build", "--emit", "host"]
    done = subprocess.run(
        words, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=600
    )
    assert done.returncode == 1
    assert "`sources` has nothing for a host side" in done.stderr


def test_an_existing_server_answers_the_network():
    if os.geteuid() != 0:
        why = "this test loads BPF programs and makes network namespaces: run it as root"
        assert "CI" not in os.environ, why
        pytest.skip(why)
    done = phonebook("--self-test")
    assert done.returncode == 0, done.stdout + done.stderr
    assert (
        "160 questions answered as the server's own socket; server and run killed once each"
        in done.stdout
    )
