"""Byte strings of which only what counts crosses to another process, or over a modelled link."""

import json

import pytest
from nicforge.flow import (
    Element,
    Field,
    FromNet,
    In,
    Out,
    Program,
    Queue,
    Reply,
    State,
    Table,
    bytes_,
    packet,
    u32,
)


class Text(State):
    length = Field(u32, initial=0)
    few = Field(u32, initial=0)
    text = Field(bytes_(64), size="length")
    name = Field(bytes_(40), size="few")


class Read(Element):
    """As many bytes as the first one says, and as many of a second string as the second one
    says."""

    inp, out, state = In(pkt=packet), Out(packet), Text
    body = """
        uint8_t of[2] = {0, 0};
        nf_load(pkt, 0, &of);
        state->length = of[0] % 65;
        state->few = of[1] % 41;
        for (uint32_t i = 0; i < 64; i++)
            state->text.b[i] = i + 1;
        for (uint32_t i = 0; i < 40; i++)
            state->name.b[i] = i + 3;
        out(pkt);
    """


class Turn(Element):
    """Both strings shortened or made longer, so that what goes back has a length of its own."""

    inp, out, state = In(pkt=packet), Out(packet), Text
    body = """
        uint32_t length = state->length;
        state->length = state->few;
        state->few = length % 41;
        for (uint32_t i = 0; i < 40; i++)
            state->name.b[i] = state->text.b[i] + i;
        out(pkt);
    """


class Answer(Element):
    inp, state = In(pkt=packet), Text
    body = """
        uint32_t of[2] = {nf_hash(state->length, state->text), nf_hash(state->few, state->name)};
        nf_store(pkt, 2, &of);
        nf_send(pkt, 0);
    """


def program() -> Program:
    network = FromNet()
    network >> Read() >> Queue("up", side="host") >> Turn() >> Queue("back", side="nic") >> Answer()
    return Program("texts", network)


LENGTHS = [
    (0, 0),
    (1, 1),
    (8, 8),
    (9, 20),
    (31, 21),
    (32, 40),
    (33, 0),
    (56, 39),
    (57, 16),
    (64, 40),
]


@pytest.mark.usefixtures("needs_root")
def test_to_the_process_of_xdp_and_back_only_what_counts_crosses(capture):
    texts = program()
    path = capture([bytes(of) + bytes(range(60)) for of in LENGTHS])
    assert "10 of 10 events" in texts.verify("xdp", "--pcap", path)

    def crosses(*of):
        link = texts.run(capture([bytes(of) + bytes(60)] * 20), target="xdp")["link"]
        assert [link[way]["entries"] for way in ("to_process", "to_kernel")] == [20, 20]
        return [link[way]["bytes"] / 20 for way in ("to_process", "to_kernel")]

    none, some = crosses(0, 0), crosses(57, 0)
    assert some[0] - none[0] == 64, "eight words"
    assert crosses(49, 0)[0] - none[0] == 56, "seven"
    assert crosses(49, 9)[0] - none[0] == 56 + 16, "seven, and two of another string"
    assert crosses(20, 17)[1] - none[1] == 24 + 24, "what goes back has lengths of its own"


class Tell(Element):
    """The strings without a packet, by the kernel's ring."""

    inp, out, kept, state = In(pkt=packet), Out(u32), Out(packet), Text
    body = "out(state->length); kept(pkt);"


class Keep(Element):
    inp, state = In(length=u32), Text
    tables = (Table("kept", "hash", u32, u32, 64),)
    body = (
        "nf_update(&kept, length * 64 + state->few, nf_hash(nf_hash(1, state->text), state->name));"
    )


@pytest.mark.usefixtures("needs_root")
def test_strings_without_a_packet_cross_by_what_counts(capture):
    network, read, tell = FromNet(), Read(), Tell()
    network >> read >> tell
    tell.out >> Queue("told", side="host") >> Keep()
    tell.kept >> Reply()
    texts = Program("told", network)
    path = capture([bytes(of) + bytes(range(60)) for of in LENGTHS])
    assert "10 of 10 events, 1 of 1 table" in texts.verify("xdp", "--pcap", path)

    def crosses(*of):
        link = texts.run(capture([bytes(of) + bytes(60)] * 20), target="xdp")["link"]["to_process"]
        assert link["entries"] == 20
        return link["bytes"] / 20

    assert crosses(40, 33) - crosses(0, 0) == 40 + 40
    assert crosses(40, 32) - crosses(0, 0) == 40 + 32


class Sum(Element):
    inp, state = In(pkt=packet), Text
    tables = (Table("sums", "hash", u32, u32, 64),)
    body = """
        nf_update(&sums, state->length * 64 + state->few, nf_hash(nf_hash(1, state->text), state->name));
        nf_drop(pkt, "summed");
    """


def test_modelled_links_and_plans_by_profile_have_what_counts(capture):
    network = FromNet()
    network >> Read() >> Queue("up", side="host") >> Sum()
    texts = Program("sums", network)
    ways = ("--target", "liquidio", "--host-cores", "1")
    path = capture([bytes(of) + bytes(range(60)) for of in LENGTHS])
    assert "10 of 10 events, 1 of 1 table" in texts.verify("liquidio", "--pcap", path)

    def share(*of):
        path = capture([bytes(of) + bytes(62)] * 400)
        found = texts.tool().run(
            "sim", *ways, "--pcap", path, "--replay", "--rate", "200kpps", "--json"
        )
        return json.loads(found)["host_link"]["to_host"]

    empty, some, all_of = share(0, 0), share(30, 16), share(64, 40)
    assert 0 < empty < some < all_of
    assert (all_of - empty) / (some - empty) == pytest.approx(104 / 48, rel=0.02), (
        "modelled bytes are those that count"
    )

    def planned(*of):
        path = capture([bytes(of) + bytes(62)] * 10)
        return json.loads(texts.tool().run("plan", *ways, "--pcap", path, "--profile", "--json"))[
            "predicted"
        ]["rate_pps"]

    assert planned(64, 40) < planned(30, 16) < planned(0, 0)
