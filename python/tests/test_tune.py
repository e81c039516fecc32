"""Choices by measurement: what is tried, in which order it is told, and what is refused."""

import pathlib

import pytest
from nicforge.flow import Choices, FromNet, Program, Reply, tune
from test_flow import TRAFFIC, Limit, line_of_here, refused


def make(most):
    network, limit = FromNet(), Limit(most)
    network >> limit >> Reply()
    return Program("tuned", network)


@pytest.fixture
def few(capture):
    """The first 100 packets of a capture."""
    data, at, frames = pathlib.Path(TRAFFIC).read_bytes(), 24, []
    for _ in range(100):
        length = int.from_bytes(data[at + 8 : at + 12], "little")
        frames.append(data[at + 16 : at + 16 + length])
        at += 16 + length
    return capture(frames)


@pytest.mark.parametrize("target", [pytest.param("dpdk", marks=pytest.mark.soak), "liquidio"])
def test_choices_are_tried(few, target):
    tuned = tune(make, few, target=target, most=[2, 3])
    assert {each.choice["most"] for each in tuned.tried} == {2, 3} and tuned.best == tuned.tried[
        0
    ].choice
    assert all(each.predicted > 1e3 and each.measured > 1e3 for each in tuned.tried)
    assert tuned.tried[0].measured >= tuned.tried[1].measured and "most=2" in tuned.table()


def test_choices_are_tried_in_the_kernel(few, needs_root):
    tuned = tune(make, few, target="xdp", plans=2, most=[2])
    assert tuned.best == {"most": 2} and tuned.tried[0].measured > 1e3


def test_a_program_with_choices_is_a_command(few, capsys):
    choices = Choices(make, most=[3, 2])

    def run(*words):
        with pytest.raises(SystemExit) as ended:
            choices.main(list(words))
        return ended.value.code, capsys.readouterr()

    code, said = run("tune", "--target", "liquidio", "--pcap", few)
    assert (
        code == 0
        and "predicted Mpps" in said.out
        and said.out.splitlines()[-1].startswith("best: --most ")
    )
    limit = {each: run("emit", "--most", each)[1].out for each in ("2", "3")}
    assert limit["2"] != limit["3"] and run("emit")[1].out == limit["3"]
    assert run("emit", "--most", "9")[0] == 2
    code, said = run("tune", "--target", "liquidio", "--pcap", "nowhere.pcap")
    assert code == 1 and "nowhere.pcap" in said.err


def test_choices_that_are_none_are_refused():
    here = lambda text: line_of_here(__file__, text)  # noqa: E731
    refused(lambda: tune(make, TRAFFIC), "there is nothing to choose")
    refused(lambda: tune(make, TRAFFIC, most=[]), "there is nothing to choose")
    refused(lambda: tune(make, TRAFFIC, plans=0, most=[2]), "0 plans are none")
    refused(
        lambda: Choices(make, target=[2]),  # its place
        "a choice cannot be called `target`",
        line=here("# its place"),
    )
