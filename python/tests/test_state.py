"""State that elements on a packet's way share: what crosses queues, and what is refused."""

import json
import struct

import pytest
from nicforge.flow import (
    Drop,
    Element,
    Field,
    FromNet,
    In,
    Out,
    Program,
    Queue,
    Reply,
    State,
    Struct,
    Table,
    bytes_,
    mac,
    packet,
    u8,
    u16,
    u32,
    u64,
)
from test_flow import line_of_here, packets_of, refused

results = Table("results", "hash", u32, u64, 8)


class Request(State):
    a = Field(u64)
    b = Field(u32)
    key = Field(u64)
    count = Field(u16, initial=5)


class First(Element):
    inp = In(pkt=packet)
    out = Out(packet)
    state = Request
    body = """
        uint64_t first;
        nf_load(pkt, 0, &first);
        state.a = first + 7; /* state.a in a comment, and in "state.a" */
        state->b = nf_len(pkt);
        state . key = 1;
        if (first & 1)
            state->key = first << 8;
        out(pkt);
    """


class Behind(Element):
    """Writes `a` on some ways, as Floem's compiler takes for the end of its life; and does not
    touch `count`."""

    inp = In(pkt=packet)
    out = Out(packet)
    state = Request
    body = """
        if (nf_len(pkt) > 60)
            state->a = 9;
        state->b = 1;
        out(pkt);
    """


class Show(Element):
    inp = In(pkt=packet)
    state = Request
    body = """
        uint64_t shown[3] = {state->a, state->b, state->key};
        nf_reset(pkt);
        if (nf_store(pkt, 0, &shown))
            nf_send(pkt, 0);
        else
            nf_drop(pkt, "short");
    """


def guarded():
    network = FromNet()
    network >> First() >> Queue("crossing") >> Behind() >> Show()
    return Program("guarded", network, ports=1)


def frames():
    return [
        bytes([first]) + bytes(size - 1) for first, size in ((0, 60), (1, 60), (2, 90), (3, 90))
    ]


def test_a_guarded_write_behind_a_queue_does_not_end_a_life(capture, tmp_path):
    program, path, out = guarded(), capture(frames()), tmp_path / "sent.pcap"
    program.tool().run("run", "--target", "interp", "--pcap", path, "--out", str(out))
    sent = out.read_bytes()
    shown = [struct.unpack_from("<QQQ", sent, at + 16) for at in packets_of(sent)]
    assert shown == [(7, 1, 1), (8, 1, 256), (9, 1, 1), (9, 1, 768)]
    for target in ("dpdk", "agilio-cx"):
        assert "4 of 4 events" in program.verify(target, "--pcap", path)


def test_queues_carry_what_lives_behind_them_and_no_more():
    """`b` is written on all ways behind the queue, `count` not used; `a` and `key` live."""
    program = guarded()
    assert program.carried() == {"crossing": {"a": 8, "key": 8}}
    edges = json.loads(program.tool().run("plan", "--target", "dpdk", "--json"))["edges"]
    assert [
        [value["name"] for value in edge["values"]] for edge in edges if edge["event"] == "crossing"
    ] == [["a", "key"]]
    assert "NF_WRITE_FIRST(struct request, a)" in guarded().source().text
    assert "struct request state_request = {.count = 5};" in guarded().source().text


def test_states_are_copies_behind_queues_and_shared_before_them(capture):
    class Count(State):
        hops = Field(u32, initial=0)

    class Hop(Element):
        inp, out = In(pkt=packet), Out(packet)
        state = Count
        body = "state->hops++;\nout(pkt);"

    class Note(Element):
        inp = In(at=u32)
        state = Count
        tables = (results,)
        body = "if (state->hops == WANT) nf_update(&results, at, 1);"

    class Split(Element):
        inp, out, note = In(pkt=packet), Out(packet), Out(u32)
        body = "note(AT);\nout(pkt);"

    network, one, two = FromNet(), Split(AT=0), Split(AT=1)
    network >> Hop() >> one
    one.note >> Queue("apart") >> Note(WANT=1)
    one.out >> Hop() >> Hop() >> two
    two.note >> Note(WANT=3)
    two.out >> Drop("counted")
    program = Program("copies", network)
    path = capture([bytes(60)])
    assert [table["entries"] for table in program.run(path)["tables"]] == [2]
    assert program.verify("dpdk", "--pcap", path)


def test_two_states_have_layouts_of_their_own(capture):
    """Members of one last name, in a state, in a state inside and in another state on the same
    way."""

    class Inner(State):
        x = Field(u16)

    class Left(State):
        x = Field(u32)
        p = Field(Inner)
        r = Field(Inner)

    class Right(State):
        x = Field(u64)

    class Make(Element):
        inp, out = In(pkt=packet), Out(packet)
        state = Left
        body = "state->x = 1;\nstate->p.x = 2;\nstate->r.x = 3;\nout(pkt);"

    class Other(Element):
        inp, out = In(pkt=packet), Out(packet)
        state = Right
        body = "state->x = 4;\nout(pkt);"

    class Sum(Element):
        inp, out = In(pkt=packet), Out(packet, u32)
        state = Left
        body = "out(pkt, state->x + 10 * state->p.x + 100 * state->r.x);"

    class More(Element):
        inp = In(pkt=packet, sum=u32)
        state = Right
        body = 'if (sum + 1000 * state->x == 4321) nf_send(pkt, 1); else nf_drop(pkt, "wrong");'

    network = FromNet()
    network >> Make() >> Other() >> Queue("both") >> Sum() >> More()
    program = Program("layouts", network)
    path = capture([bytes(60)] * 3)
    assert program.run(path)["sent"] == [0, 3]
    assert "3 of 3 events" in program.verify("dpdk", "--pcap", path)


def test_reading_before_writing_is_an_error_at_its_line():
    class Reads(Element):
        inp = In(pkt=packet)
        state = Request
        body = """
            if (nf_len(pkt) > 100)
                state->b = 1;
            nf_send(pkt, state->b);  // b has no value on short packets
        """

    network = FromNet()
    network >> Reads()
    words = (
        "element `reads`",
        "`b` of `struct request` is read, and on some way nobody has written it",
    )
    refused(
        Program("reads", network).check,
        *words,
        line=line_of_here(__file__, "// b has no value on short packets"),
    )

    # Through a queue, and around the element that writes.
    class Choose(Element):
        inp, near, far = In(pkt=packet), Out(packet), Out(packet)
        body = "if (nf_len(pkt) > 100) far(pkt); else near(pkt);"

    class Late(Element):
        inp = In(pkt=packet)
        state = Request
        body = "nf_send(pkt, state->key & 1);  // key came two ways"

    network, choose, queue, late = FromNet(), Choose(), Queue("work"), Late()
    network >> choose
    choose.near >> First() >> queue
    choose.far >> queue
    queue >> late
    words = ("element `late`", "`key` of `struct request`", "write it on every way")
    refused(
        Program("late", network).check, *words, line=line_of_here(__file__, '// key came two ways"')
    )


class Message(State):
    length = Field(u32, initial=0)
    sender = Field(mac)
    text = Field(bytes_(64), size="length")


class Take(Element):
    """The packet's bytes, as many as its first one says."""

    inp, out = In(pkt=packet), Out(packet)
    state = Message
    body = """
        uint8_t length = 0;
        nf_load(pkt, 0, &length);
        nf_load(pkt, 6, &state->sender);
        state->length = length & 63;
        for (uint32_t i = 0; i < 64; i++) {
            uint8_t c;
            nf_load(pkt, i, &c);
            state->text.b[i] = c;
        }
        out(pkt);
    """


class Digest(Element):
    inp = In(pkt=packet)
    state = Message
    tables = (Table("digests", "hash", u32, u32, 64),)
    body = """
        nf_update(&digests, nf_hash(1, state->sender), nf_hash(state->length, state->text));
        nf_drop(pkt, "digested");
    """


def test_byte_strings_cross_by_their_size(capture):
    network = FromNet()
    network >> Take() >> Queue("texts") >> Digest()
    program = Program("texts", network)
    carried = program.carried()
    for most in (16, 32, 64):
        assert carried[f"texts_{most}"] == {"part": most, "length": 4, "sender": 6}
    path = capture(
        [
            bytes([n]) + bytes((7 * i + n) & 255 for i in range(79))
            for n in (0, 3, 16, 17, 32, 40, 63)
        ]
    )
    for target in ("dpdk", "u280"):
        assert "7 of 7 events, 1 of 1 table" in program.verify(target, "--pcap", path)


class Pair(State):
    first_length = Field(u8, initial=0)
    second_length = Field(u8, initial=0)
    first = Field(bytes_(32), size="first_length")
    second = Field(bytes_(16), size="second_length")


class TakeTwo(Element):
    """Two strings behind their lengths, which are bytes 0 and 1."""

    inp, out = In(pkt=packet), Out(packet)
    state = Pair
    body = """
        uint8_t of[2] = {0, 0};
        nf_load(pkt, 0, &of);
        state->first_length = of[0] % 33;
        state->second_length = of[1] % 17;
        for (uint32_t i = 0; i < 32; i++) {
            uint8_t c = 0;
            nf_load(pkt, 2 + i, &c);
            state->first.b[i] = c;
        }
        for (uint32_t i = 0; i < 16; i++) {
            uint8_t c = 0;
            nf_load(pkt, 34 + i, &c);
            state->second.b[i] = c;
        }
        out(pkt);
    """


class DigestTwo(Element):
    inp, out = In(pkt=packet), Out(packet)
    state = Pair
    body = """
        uint32_t of[2] = {nf_hash(state->first_length, state->first), nf_hash(state->second_length, state->second)};
        nf_store(pkt, 52, &of);
        out(pkt);
    """


@pytest.mark.soak
def test_two_byte_strings_cross_by_their_sizes(capture):
    network = FromNet()
    network >> TakeTwo() >> Queue("pairs") >> DigestTwo() >> Reply()
    program = Program("pairs", network)
    carried = program.carried()
    sizes = [(first, second) for first in (16, 32) for second in (8, 16)]
    assert {f"pairs_{first}_{second}" for first, second in sizes} == set(carried)
    for first, second in sizes:
        assert carried[f"pairs_{first}_{second}"]["part"] == first
        assert carried[f"pairs_{first}_{second}"]["part_1"] == second
    lengths = [(first, second) for first in (0, 8, 9, 16, 17, 32) for second in (0, 4, 5, 16)]
    path = capture([bytes(of) + bytes((11 * i + of[0]) & 255 for i in range(70)) for of in lengths])
    assert program.run(path)["sent"] == [24, 0]
    for target in ("dpdk", "liquidio"):
        assert "24 of 24 events" in program.verify(target, "--pcap", path)


class Question(State):
    key = Field(u32)
    answer = Field(bytes_(64))
    before = Field(u8[32], initial=0)
    tries = Field(u16, initial=0)


def test_queues_of_the_kernel_carry_what_lives(capture, needs_root):
    """Behind the queue the state is one struct again; what is only read before it, or written
    behind it, does not cross."""

    class Ask(Element):
        inp, out, state = In(pkt=packet), Out(packet), Question
        body = """
            uint8_t b = 0;
            nf_load(pkt, 0, &b);
            state->before[0] = b;
            state->key = state->before[0] + 1;
            state->tries = b & 1;
            out(pkt);
        """

    class Answer(Element):
        inp, out, state = In(pkt=packet), Out(packet), Question
        body = """
            if (state->key > 4)
                state->tries = state->tries + 2;
            struct bytes_64 answer;
            for (uint32_t i = 0; i < 64; i++)
                answer.b[i] = state->key + i;
            state->answer = answer;
            out(pkt);
        """

    class Send(Element):
        inp, state = In(pkt=packet), Question
        body = "nf_store(pkt, 16, &state->answer);\nnf_send(pkt, state->tries & 1);"

    network = FromNet()
    network >> Ask() >> Queue("ask", side="host") >> Answer() >> Queue("tell", side="nic") >> Send()
    program = Program("questions", network)
    plan = json.loads(program.tool().run("plan", "--target", "xdp", "--json"))
    carried = {
        edge["event"]: {each["name"]: each["bytes"] for each in edge["values"]}
        for edge in plan["edges"]
    }
    assert carried["ask"] == {"key": 4, "tries": 2}, carried
    assert sum(carried["tell"].values()) <= 66, carried
    path = capture([bytes([number]) * 90 for number in range(10)])
    assert "10 of 10 events" in program.verify("xdp", "--pcap", path)


class Three(State):
    length = Field(u32, initial=0)
    few = Field(u8, initial=0)
    first = Field(bytes_(128), size="length")
    second = Field(bytes_(64), size="few")
    third = Field(bytes_(256), size="length")


class FillThree(Element):
    """Strings of as many bytes as the first one says, which are not zero, and more behind them."""

    inp, out, state = In(pkt=packet), Out(packet), Three
    body = """
        uint8_t length = 0;
        nf_load(pkt, 0, &length);
        state->length = length;
        state->few = length & 63;
        for (uint32_t i = 0; i < 256; i++) {
            state->first.b[i] = length + 1;
            state->second.b[i] = length + 2;
            state->third.b[i] = length + 3;
        }
        out(pkt);
    """


class DigestThree(Element):
    inp, out, state = In(pkt=packet), Out(packet), Three
    body = """
        uint32_t sum = nf_hash(nf_hash(state->length, state->first), state->second);
        nf_store(pkt, 4, &sum);
        sum = nf_hash(sum, state->third);
        nf_store(pkt, 8, &sum);
        out(pkt);
    """


def test_bytes_that_count_cross_by_dma(capture):
    """More strings than have handlers for their lengths; to the host's process what counts crosses,
    in lines of 64 bytes."""
    network = FromNet()
    network >> FillThree() >> Queue("three", side="host") >> DigestThree() >> Reply()
    program = Program("three", network)
    path = capture([bytes([length]) * 60 for length in (0, 1, 7, 8, 9, 63, 64, 100, 128)])
    assert "9 of 9 events" in program.verify("dpdk", "--host-process", "--pcap", path)

    def crosses(length):
        link = program.run(capture([bytes([length]) * 60] * 20), "--host-process", target="dpdk")[
            "link"
        ]
        assert link["entries"] == 20 and link["bytes"] % 64 == 0
        return link["bytes"] / 20

    none = crosses(64)  # `few` is 0, so of two strings 64 bytes each
    assert crosses(72) - none in (0, 64)  # 8 bytes more of three strings
    assert crosses(128) - none in (128, 192)
    assert none < 512, "three strings of 448 bytes, of which 128 count, and a frame of 60 bytes"


def test_mistakes_in_states_are_named():
    refused(lambda: type("Empty", (State,), {}), "state `Empty` has no fields")
    refused(lambda: Field(packet), "a field has no type that values can have")
    refused(lambda: Field(State), "a field has no type that values can have")
    refused(lambda: Field(Struct("point", x=u8), initial=3), "cannot be 3 at first")
    refused(lambda: bytes_(0), "bytes_(0) is no byte string")
    refused(
        lambda: type("Sized", (State,), {"b": Field(bytes_(8), size="n")}),
        "the size of field `b` of state `Sized` is `n`",
    )
    unset = {"n": Field(u32), "b": Field(bytes_(8), size="n")}
    refused(lambda: type("Unset", (State,), unset), "which is no integer field with a first value")
    plain = {"n": Field(u32, initial=0), "b": Field(u8[8], size="n")}
    refused(lambda: type("Plain", (State,), plain), "has a size and is no byte string")
    refused(
        lambda: type("Bad", (Element,), {"inp": In(x=u32), "state": Request.struct})(),
        "the state of element `bad` is no State",
    )
    refused(
        lambda: type("Same", (Element,), {"inp": In(state=u32), "state": Request})(),
        "a value that is called `state`",
    )
