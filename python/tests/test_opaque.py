"""Bodies of C outside the subset: what crosses, what they may do, what is refused."""

import pytest
from nicforge.flow import (
    Discard,
    Drop,
    Element,
    External,
    Field,
    FlowError,
    FromNet,
    In,
    Out,
    Program,
    Queue,
    Reply,
    State,
    Struct,
    Table,
    packet,
    u8,
    u16,
    u32,
    u64,
)
from test_flow import line_of_here, refused

Line = Struct("line", text=u8[32])
Four = Struct("four", b=u8[4])
Pair = Struct("pair", first=u16, second=u16)


class Request(State):
    size = Field(u32)
    kept = Field(u32, initial=7)
    tag = Field(u32)
    rest = Field(u64, initial=1)
    name = Field(u8[4], initial=0)
    pair = Field(Pair, initial=0)


class Read(Element):
    inp = In(pkt=packet)
    out = Out(packet, Line)
    small = Out(packet)
    state = Request
    body = """
        struct line line;
        state->size = nf_len(pkt);
        state->kept = 6 + nf_len(pkt) / 60;
        state->rest = nf_len(pkt) / 60;
        state->name[0] = (uint8_t)nf_len(pkt);
        state->pair.first = (uint16_t)nf_len(pkt);
        state->pair.second = (uint16_t)(5 + nf_len(pkt) / 60);
        if (nf_load(pkt, 14, &line))
            out(pkt, line);
        else
            small(pkt);
    """


class Match(Element):
    inp = In(pkt=packet, line=Line)
    hit = Out(packet, u32)
    miss = Out(packet)
    state = Request
    includes = ("<regex.h>",)
    body = """
        static regex_t wanted;
        static bool ready;
        if (!ready)
            ready = regcomp(&wanted, "^a+", REG_EXTENDED | REG_NOSUB) == 0;
        if (state->size > 80)
            state->kept = 1;  // guarded
        state->tag = 3;
        state->name[1] = 4;
        state->pair.second++;
        line.text[31] = 0;
        if (ready && regexec(&wanted, (const char *)line.text, 0, NULL, 0) == 0)
            hit(pkt, state->size + MORE);
        else if (line.text[0] != 'z')
            miss(pkt);
    """


class Write(Element):
    inp = In(pkt=packet, number=u32)
    out = Out(packet)
    state = Request
    body = """
        uint32_t all[6] = {number, state->kept, state->tag, state->name[1], state->pair.second, (uint32_t)state->rest};
        nf_emit(pkt, &all);
        out(pkt);
    """


def program(side="host", match=None):
    network, read, match = FromNet(), Read(), match or Match(MORE=1)
    network >> read
    read.small >> Drop("short")
    read.out >> Queue("lines", side=side) >> match
    match.hit >> Write() >> Reply()
    match.miss >> Drop("no match")
    return Program("opaque", network)


def frames(*texts):
    return [(bytes(14) + text.encode()).ljust(60 + 12 * at, b"\0") for at, text in enumerate(texts)]


def sent(path):
    """The six words in front of each frame of a capture."""
    data, at, found = path.read_bytes(), 24, []
    while at < len(data):
        length = int.from_bytes(data[at + 8 : at + 12], "little")
        frame = data[at + 16 : at + 16 + length]
        found.append([int.from_bytes(frame[n : n + 4], "little") for n in range(0, 24, 4)])
        at += 16 + length
    return found


@pytest.mark.parametrize("target", ["dpdk", "xdp", "agilio-cx"])
def test_opaque_bodies_run_where_there_are_processes(capture, needs_root, target):
    """Also on a queue that names no side: on xdp only the process can run what is behind it."""
    path = capture(frames("aaa", "bbb", "ab", "", "z"))
    for side in ("host", None):
        assert "5 of 5 events" in program(side).verify(target, "--pcap", path)


def test_guarded_writes_keep_what_was_there(capture, tmp_path, capsys):
    out = tmp_path / "out.pcap"
    path = capture(frames("aaa", "bbb", "ab", "", "z"))
    report = program().run(path, "--out", str(out), expected={"sent": [2, 0]})
    # What calls no output is dropped, counted under the element's name.
    assert report["drops"] == {"no match": 2, "match: no output": 1}
    # Frames of 60 and 84 bytes: only the second is long enough for the write.
    assert sent(tmp_path / "out.0.pcap") == [[61, 7, 3, 4, 7, 1], [85, 1, 3, 4, 7, 1]]
    assert "element `match` is opaque C: it includes <regex.h>" in capsys.readouterr().err


def test_queues_carry_what_opaque_bodies_read_and_what_lives_behind_them():
    carried = program().carried()["lines"]
    text = program().source().text
    # line, size, kept, name, pair.second and the part of `rest` that is used behind. Not `tag`,
    # which is written on every way and never read, and not `first`, which is nobody's.
    assert sorted(carried.values()) == [2, 4, 4, 4, 4, 32], carried
    call = text[text.index("nf_made = opaque_match(") : text.index("if ((nf_made")]
    for part in (
        "state->name",
        "&state->kept",
        "&state->pair.second",
        "&nf_left_tag",
        "state->size",
        "state->tag = nf_left_tag",
    ):
        assert part in call, text
    assert "rest" not in call and "first" not in call


def tried(text, **more):
    """A program of one element with a body, which nothing says is opaque."""

    class Tried(Element):
        inp = In(pkt=packet, size=u32)
        out = Out(packet, u32)
        body = text
        structs = (Pair,)

    for name, value in more.items():
        setattr(Tried, name, value)

    class Size(Element):
        inp, out = In(pkt=packet), Out(packet, u32)
        body = "out(pkt, nf_len(pkt));"

    class Answer(Element):
        inp, out = In(pkt=packet, number=u32), Out(packet)
        body = "uint32_t number_there = number; nf_emit(pkt, &number_there); out(pkt);"

    network = FromNet()
    network >> Size() >> Queue("work", side="host") >> Tried() >> Answer() >> Reply()
    return Program("tried", network)


POINTERS = """
uint32_t numbers[4] = {size, 2, 3, 4};
const uint32_t *places[4] = {numbers, numbers, numbers + 2, numbers + 1};
uint32_t sum = 0;
places[0] = numbers + 3;
for (int at = 0; at < 4; at++)
    sum += *places[at];
out(pkt, sum);
"""


def test_what_the_subset_has_no_words_for_becomes_opaque(capture, tmp_path, capsys):
    out, made = tmp_path / "out.pcap", tried(POINTERS)
    made.run(capture(frames("a")), "--out", str(out), expected={"sent": [1, 0]})
    assert sent(tmp_path / "out.0.pcap")[0][0] == 60 + 9
    said = capsys.readouterr().err
    assert (
        "note: " in said and "element `tried` is opaque C: " in said and "test_opaque.py:" in said
    ), said
    assert "opaque_tried" in made.source().text and 'tried [label="tried\\nopaque C"' in made.draw()
    # What the subset has words for does not.
    plain = tried("out(pkt, size);")
    plain.run(capture(frames("a")))
    assert "opaque_" not in plain.source().text + capsys.readouterr().err


def test_false_keeps_the_subset_and_true_leaves_it():
    refused(tried(POINTERS, opaque=False).check, "element `tried`: it cannot be seen where this")
    assert "opaque_tried(" in tried("out(pkt, size);", opaque=True).source().text
    words = ("is not to be opaque and has what only opaque bodies have",)
    refused(lambda: tried(POINTERS, opaque=False, includes=("<stdlib.h>",)), *words)


def test_mistakes_stay_mistakes():
    """Plain errors of C are no reason to be opaque, and neither are packets that get lost."""
    refused(tried("out(pkt, sise);").check, "undeclared identifier 'sise'")
    refused(tried("if (size > 3) out(pkt, size);").check, "`pkt`")
    refused(
        tried(POINTERS + "if (size > 3) nf_drop(pkt);").check,
        "it cannot be opaque C either",
        "cannot call `nf_drop`",
    )
    refused(tried("out(pkt, malloc(3) != 0);").check, "malloc")


def test_what_opaque_bodies_cannot_do_has_its_line():
    class Peeks(Match):
        body = """
            uint8_t first;
            if (nf_load(pkt, 0, &first))  // looks into it
                hit(pkt, first);
        """

    refused(
        program(match=Peeks()).source,
        "cannot call `nf_load`",
        line=line_of_here(__file__, "// looks into it"),
    )

    class Holds(Match):
        body = """
            static nf_pkt other;
            other = pkt;  // holds it
        """

    refused(
        program(match=Holds()).source,
        "which output it takes",
        line=line_of_here(__file__, "// holds it"),
    )

    class Looks(Match):
        tables = (Table("seen", "hash", u32, u32, 16),)

    words = ("is opaque C and uses tables (`seen`)", "let elements in front of it look up")
    refused(program(match=Looks(MORE=1)).source, *words)

    class Wrong(Match):
        body = """
            hit(pkt, regnone(3));  // nobody declares it
        """

    refused(
        program(match=Wrong()).source,
        "regnone",
        line=line_of_here(__file__, "// nobody declares it"),
    )

    class Missing(Match):
        includes = ("<nowhere.h>",)

    refused(program(match=Missing(MORE=1)).source, "'nowhere.h' file not found", "test_opaque.py")

    class Linked(Match):
        has = ("gone.c",)

    refused(
        program(match=Linked(MORE=1)).check,
        "`gone.c`, which has what element `linked` calls, is not there",
    )

    class Promises(Match):
        pure = True

    line = line_of_here(__file__, "static regex_t wanted;")
    refused(program(match=Promises(MORE=1)).source, "promises to have no state", line=line)


def test_reading_before_writing_has_the_line_of_the_body():
    class Reads(Match):
        body = """
            if (state->tag == 3)  // nobody wrote it
                hit(pkt, 1);
        """

    refused(
        program(match=Reads()).check, "`tag`", line=line_of_here(__file__, "// nobody wrote it")
    )

    class Sometimes(Match):
        body = """
            if (state->size > 3)
                state->tag = 4;  // sometimes
            hit(pkt, 1);
        """

    line = line_of_here(__file__, "// sometimes")
    refused(
        program(match=Sometimes()).check,
        "`tag`",
        "writes on some ways only",
        "it keeps what was there",
        line=line,
    )


def test_outputs_are_called_once(capture, capsys):
    class Twice(Match):
        body = """
            state->tag = 1;
            for (uint32_t at = 0; at < state->size; at += 50)
                hit(pkt, at);  // again and again
        """

    words = ("element `twice` calls output `hit` a second time in one run", "test_opaque.py:")
    where = line_of_here(__file__, "// again and again")
    path = capture(frames("a"))
    refused(lambda: program(match=Twice()).run(path), *words, f":{where[1]}: ")
    refused(lambda: program(match=Twice()).verify("dpdk", "--pcap", path), *words)

    class Both(Match):
        body = """
            hit(pkt, 3);
            miss(pkt);  // it is gone
        """

    refused(
        program(match=Both()).source,
        "the packet is given to a second output",
        line=line_of_here(__file__, "// it is gone"),
    )

    class Promises(Match):
        fires = "one"
        body = """
            state->tag = 1;
            if (state->size > 70)
                miss(pkt);
        """

    refused(
        lambda: program(match=Promises()).run(path),
        "called none of its outputs in one run, as it promised",
    )
    assert program(match=Promises()).fires()["promises"] == "one"


def test_outputs_without_a_packet_may_be_called_several_times(capture):
    words = Table("words", "hash", u32, u32, 64)

    class Split(Element):
        inp = In(pkt=packet, line=Line)
        out = Out(packet)
        word = Out(Pair, u32)
        calls = 4
        includes = ("<string.h>",)
        body = """
            line.text[31] = 0;
            char *rest = (char *)line.text;
            for (char *at = strsep(&rest, " "); at != NULL; at = strsep(&rest, " "))
                word((struct pair){1, (uint16_t)strlen(at)}, (uint32_t)at[0]);
            out(pkt);
        """

    class Keep(Element):
        inp = In(pair=Pair, first=u32)
        tables = (words,)
        body = "nf_add_value(&words, first * 256 + pair.second, pair.first);"

    network, read, split = FromNet(), Read(), Split()
    network >> read
    read.small >> Drop("short")
    read.out >> Queue("lines", side="host") >> split
    split.out >> Reply()
    split.word >> Keep()
    made = Program("several", network)
    path = capture(frames("ab cd abc", "ax", "a b c d"))
    assert "3 of 3 events, 1 of 1 table" in made.verify("dpdk", "--pcap", path)
    # ab and ax are one entry.
    assert made.run(path)["tables"][0]["entries"] == 7
    too_many = capture(frames("a b c d e"))
    refused(
        lambda: made.run(too_many),
        "element `split` calls output `word` more than 4 times in one run",
    )

    class All(Split):
        fires = "all"

    network, read, split = FromNet(), Read(), All()
    network >> read
    read.small >> Drop("short")
    read.out >> split
    split.out >> Reply()
    split.word >> Keep()
    refused(
        lambda: Program("all", network),
        "element `all` may call outputs 4 times in one run, and fires `all`",
    )


class Numbers(Element):
    """All of its outputs, structs among their values, several threads."""

    inp = In(pkt=packet, size=u32, of=Four)
    low = Out(Four)
    high = Out(Pair)
    out = Out(packet, Four)
    fires = "all"
    pure = True
    externals = (External("uint32_t numbered(uint32_t of)", "external.c"),)
    includes = ('"tidy.h"', "<stdlib.h>", "<string.h>")
    has = ("tidy.c",)
    body = """
        extern void tidy(void *line);
        uint64_t words[8] = {of.b[0], 1, 2};
        tidy(words);
        struct four *copy = malloc(sizeof(*copy));
        memcpy(copy, &of, sizeof(of));
        qsort(copy->b, 4, 1, tidy_order);
        struct pair pair = {copy->b[0], words[7] == of.b[0] && numbered(0) != 0};
        high(pair);
        low(*copy);
        out(pkt, *copy);
        free(copy);
    """


def test_values_of_all_kinds_come_and_go(capture, needs_root):
    seen = Table("seen", "hash", u32, u32, 64)

    class Bytes(Element):
        inp, out = In(pkt=packet), Out(packet, u32, Four)
        body = "struct four four; nf_load(pkt, 14, &four); out(pkt, nf_len(pkt), four);"

    class Keep(Element):
        inp = In(pair=Pair)
        tables = (seen,)
        body = "nf_add_value(&seen, pair.first * 65536 + pair.second, 1);"

    class Show(Element):
        inp, out = In(pkt=packet, four=Four), Out(packet)
        body = "nf_emit(pkt, &four); out(pkt);"

    network, numbers = FromNet(), Numbers()
    network >> Queue("work", side="host", instances=2) >> Bytes() >> numbers
    numbers.low >> Discard(Four)
    numbers.high >> Keep()
    numbers.out >> Show() >> Reply()
    made = Program("kinds", network)
    assert "NF_PURE extern uint32_t opaque_numbers(" in made.source().text
    for target in ("dpdk", "xdp"):
        assert "3 of 3 events, 1 of 1 table" in made.verify(
            target, "--pcap", capture(frames("dbca", "zyxa", "1203"))
        )


def test_where_they_cannot_run_is_said_with_the_python_line(capture):
    where = line_of_here(__file__, "static regex_t wanted;")
    for target, side in (
        ("xdp", "nic"),
        ("u280", None),
        ("bluefield2", "host"),
        ("agilio-cx", "nic"),
    ):
        words = (
            "element `match` is opaque C",
            f"which {target} does not run there",
            "put it behind a Queue",
        )
        refused(lambda t=target, s=side: program(s).build("nowhere", target=t), *words, line=where)
    with pytest.raises(FlowError, match="does not run there"):
        program("nic").verify("xdp", "--pcap", capture(frames("a")))
