"""Queues: instances that the program chooses, full queues that lose or make wait, and what is
refused."""

import json
import types

import pytest
from nicforge.flow import (
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
    Segment,
    State,
    Table,
    bytes_,
    packet,
    u32,
    u64,
)
from nicforge.flow.command import main
from nicforge.flow.tool import Tool
from test_flow import TRAFFIC, line_of_here, refused

seen = Table("seen", "array", u32, u64, 4)


class Read(Element):
    """The packet with its third byte's lowest bits."""

    inp = In(pkt=packet)
    out = Out(packet, u32)
    body = """
        uint8_t third = 0;
        nf_load(pkt, 2, &third);
        out(pkt, third & 7);
    """


class Send(Element):
    inp = In(pkt=packet, shard=u32)
    body = "nf_send(pkt, shard & 1);"


def sharded(instances=8, **more):
    network = FromNet()
    network >> Read() >> Queue("work", instances=instances, instance="shard", **more) >> Send()
    return Program("sharded", network)


def frames(numbers, size=60):
    return [bytes([0, 0, number]) + bytes(size - 3) for number in numbers]


def test_the_program_chooses_the_instance(capture):
    program = sharded()
    plan = json.loads(program.tool().run("plan", "--target", "dpdk", "--json"))
    steering = {edge["event"]: edge["steering"] for edge in plan["edges"]}["work"]
    assert steering == {"kind": "key", "param": "shard", "instances": 8}, steering
    path = capture(frames([0, 1, 2, 3, 4, 5, 6, 7] * 5))
    assert program.run(path)["sent"] == [20, 20]
    for target in ("dpdk", "agilio-cx"):
        assert "40 of 40 events, 1 of 1 table" in program.verify(target, "--pcap", path)


WHERE = """
#include <stdint.h>
#include <stdio.h>
#include <unistd.h>

uint32_t served(uint32_t shard);
uint32_t served(uint32_t shard)
{
    FILE *file = fopen("%s", "a");
    if (file) {
        fprintf(file, "%%d %%d %%u\\n", getpid(), gettid(), shard);
        fclose(file);
    }
    return shard & 1;
}
"""


@pytest.mark.parametrize(
    ("target", "side", "instances", "cores"),
    [("dpdk", "host", 6, 6), ("dpdk", None, 8, 3), ("xdp", "host", 3, 3)],
)
def test_each_core_serves_the_instances_of_its_number(
    capture, needs_root, tmp_path, target, side, instances, cores
):
    """A function of C, said to have no state, notes which thread of which process calls it with
    which number."""
    notes = tmp_path / "served"
    (tmp_path / "served.c").write_text("#define _GNU_SOURCE" + WHERE % notes)
    served = External("uint32_t served(uint32_t shard)", str(tmp_path / "served.c"), pure=True)

    class Serve(Element):
        inp = In(pkt=packet, shard=u32)
        externals = (served,)
        body = "nf_send(pkt, served(shard));"

    network = FromNet()
    network >> Read() >> Queue("work", side=side, instances=instances, instance="shard") >> Serve()
    path = capture(frames([number % instances for number in range(60)]))
    assert "60 of 60 events" in Program("served", network).verify(target, "--pcap", path)
    found: dict[str, dict[str, set[int]]] = {}
    for line in notes.read_text().split("\n")[:-1]:
        process, thread, shard = line.split()
        if thread != process:  # the interpreter's
            found.setdefault(process, {}).setdefault(thread, set()).add(int(shard))
    ranges: list[set[int]] = [set() for _ in range(cores)]
    for number in range(instances):
        ranges[number * cores // instances].add(number)
    assert any(sorted(of.values(), key=min) == ranges for of in found.values()), found


def test_an_instance_of_a_queue_knows_its_number(capture):
    class Item(State):
        key = Field(u32)
        own = Field(u32, initial=9)

    class Fill(Element):
        inp, out, state = In(pkt=packet, shard=u32), Out(packet), Item
        body = "state->key = shard;\nout(pkt);"

    class Serve(Element):
        inp, state = In(pkt=packet), Item
        body = "nf_send(pkt, state->own);"

    def program(**more):
        network = FromNet()
        (
            network
            >> Read()
            >> Fill()
            >> Queue("items", instances=2, instance="state->key >> 2", **more)  # chooses
            >> Serve()
        )
        return Program("items", network)

    path = capture(frames([0, 3, 4, 7, 5]))
    found = program(number="own")
    assert found.run(path)["sent"] == [2, 3]
    for target in ("dpdk", "liquidio"):
        assert "5 of 5 events" in found.verify(target, "--pcap", path)
    here = line_of_here(__file__, "# chooses")
    refused(
        lambda: program(number="most"),
        "gives the number of its instance to `most`, which is no integer field",
        line=here,
    )


def test_instances_out_of_range_are_given_up_and_counted(capture):
    path = capture(frames([0, 1, 2, 3, 4, 5]))
    report = sharded(instances=4).run(path)
    assert report["sent"] == [2, 2] and report["drops"] == {"work: no such instance": 2}

    class Note(Element):
        inp = In(shard=u32)
        tables = (seen,)
        body = "nf_add_value(&seen, shard, 1);"

    class Split(Element):
        inp, out, value = In(pkt=packet, shard=u32), Out(packet), Out(u32)
        body = "value(shard);\nout(pkt);"

    network, split = FromNet(), Split()
    network >> Read() >> split
    split.out >> Reply()
    split.value >> Queue("notes", instances=2, instance="shard") >> Note()
    program = Program("notes", network)
    assert program.run(path)["sent"] == [6, 0]
    assert "6 of 6 events, 3 of 3 tables" in program.verify("dpdk", "--pcap", path)


def test_an_instance_may_be_a_field_of_the_state(capture):
    class Item(State):
        shard = Field(u32)
        length = Field(u32, initial=0)
        text = Field(bytes_(16), size="length")

    class Fill(Element):
        inp, out, state = In(pkt=packet), Out(packet), Item
        body = """
            uint8_t third = 0;
            nf_load(pkt, 2, &third);
            state->shard = third & 3;
            state->length = third & 15;
            nf_load(pkt, 0, &state->text);
            out(pkt);
        """

    class Use(Element):
        inp, state = In(pkt=packet), Item
        body = "nf_send(pkt, state->text.b[2] & 1);"

    network = FromNet()
    network >> Fill() >> Queue("items", instances=4, instance="state.shard") >> Use()
    program = Program("items", network)
    path = capture(frames(range(16)))
    assert program.run(path)["sent"] == [9, 7]  # byte strings shorter than 3 have no third byte
    assert "16 of 16 events" in program.verify("dpdk", "--pcap", path)


class Pass(Element):
    inp, out = In(pkt=packet), Out(packet)
    body = "out(pkt);"


class Two(Element):
    """Every packet to `get`, those with an odd third byte to `set`."""

    inp, get, set = In(pkt=packet, shard=u32), Out(packet), Out(packet)
    body = "if (shard & 1)\n    set(pkt);\nelse\n    get(pkt);"


def limited(**more):
    network, two, up = (
        FromNet(),
        Two(),
        Queue("up", side="host", channels=["get", "set"], entries=2, **more),
    )
    network >> Read() >> two
    two.get >> up["get"] >> Reply()
    two.set >> up["set"] >> Reply()
    return Program("limited", network)


def test_full_channels_lose_or_make_wait_as_they_say(capture):
    """What NIC and host may do at their own pace, with room for two entries in each channel."""
    path = capture(frames([0, 1] * 40))
    waits = limited(lossy=()).run(path, "--interleave", "3")
    assert sum(waits["sent"]) == 80 and waits["losses"] == {}
    some = limited(lossy=("get",)).run(path, "--interleave", "3")
    lost = some["losses"]["queue up_get full"]
    assert 0 < lost < 40 and sum(some["sent"]) == 80 - lost and len(some["losses"]) == 1
    both = limited(lossy=True).run(path, "--interleave", "3")
    assert set(both["losses"]) == {"queue up_get full", "queue up_set full"}
    text = limited(lossy=("get",)).source().text
    assert "NF_QUEUE(2, loses);\nvoid up_get" in text and "NF_QUEUE(2, waits);\nvoid up_set" in text


def test_check_says_which_target_cannot_wait():
    said = limited(lossy=()).check("xdp")
    assert "queues that wait when they are full (those of the kernel lose, counted)" in said
    refused(
        lambda: limited(lossy=()).verify("xdp", "--pcap", str(TRAFFIC)),
        "xdp lacks queues that wait when they are full",
    )
    for target, lossy in (("xdp", True), ("dpdk", ())):
        assert "wait when they are full" not in limited(lossy=lossy).check(target)


def test_check_ends_with_status_1_where_a_program_does_not_run(capsys):
    for target, verdict, code in (("dpdk", "yes", 0), ("xdp", "no", 1)):
        with pytest.raises(SystemExit) as ended:
            main(limited(lossy=()), ["check", "--target", target])
        assert f"{target}  {verdict}" in capsys.readouterr().out
        assert ended.value.code == code


def back_and_forth(**back):
    network, up = FromNet(), Queue("up", side="host", entries=1, lossy=False)
    behind = network >> Pass() >> up >> Pass()
    behind >> Queue("down", side="nic", entries=1, **back) >> Reply()  # back again
    return Program("back", network)


def test_waiting_queues_that_lead_round_are_refused(capture):
    words = (
        "queues that wait when they are full lead round: queue `up`, queue `down`",
        "let one of them lose",
    )
    refused(
        lambda: back_and_forth(lossy=False), *words, line=line_of_here(__file__, "# back again")
    )
    path = capture(frames([0] * 30))
    for seed in range(3):
        report = back_and_forth(lossy=True).run(path, "--interleave", str(seed))
        assert sum(report["sent"]) + sum(report["losses"].values()) == 30

    def itself():
        same = Segment("same", device="nic", cores=1)
        network = FromNet(segment=same)
        network >> Queue("itself", segment=same, lossy=False) >> Reply()
        Program("itself", network)

    refused(itself, "lead round: queue `itself`")


def test_the_interpreter_shows_queues_that_wait_for_one_another(capture):
    """The same without the check: C may say it, and the random order finds it."""
    program = back_and_forth(lossy=True)
    text = program.source().text.replace("NF_QUEUE(1, loses)", "NF_QUEUE(1, waits)")
    tool = Tool("waits", types.SimpleNamespace(text=text))
    path = capture(frames([0] * 30))
    found = []
    for seed in range(4):
        with tool._folder() as file:
            done = tool._call(
                "run", file, "--target", "interp", "--pcap", path, "--interleave", str(seed)
            )
            found.append(done.stderr)
    words = ("the full queues `down` and `up` wait", "the full queues `up` and `down` wait")
    assert any(word in said for said in found for word in words), found


def test_mistakes_in_queues_are_named():
    refused(
        lambda: Queue("q", instance="key"),
        "queue `q` chooses an instance and does not say among how many",
    )
    refused(
        lambda: Queue("q", instances=4, instance=4),
        "queue `q` has 4 instances and always chooses 4",
    )
    refused(
        lambda: Queue("q", instances=4, instance="0x7"),
        "queue `q` has 4 instances and always chooses 7",
    )
    refused(
        lambda: Queue("q", instances=4, number="own"),
        "queue `q` has a number for `own` and chooses no instance",
    )
    refused(lambda: Queue("q", entries=0), "queue `q` has room for 0 entries")
    refused(
        lambda: Queue("q", channels=["a"], lossy=("b",)),
        "queue `q` has no channel `b` that could lose",
    )
    refused(
        lambda: Queue("q", channels=["a"], lossy="a"),
        "queue `q` has no channel `a` that could lose",
    )
    network = FromNet()
    network >> Read() >> Queue("bad", instances=2, instance="nothing") >> Send()  # names nothing
    refused(
        Program("bad", network).check, "nothing", line=line_of_here(__file__, "# names nothing")
    )
    with pytest.raises(FlowError):
        Queue("q", instances=2, instance=3)
    network, taken = FromNet(), Queue("work", instances=2, instance="shard")
    network >> Read() >> taken >> Send("work_choose_other")
    assert Drop("x") and "work_choose" in Program("names", network).source().text
