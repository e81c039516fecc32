"""Caches of `nicforge.flow`: histories of random interleavings are linearizable for every policy,
faults put in by hand are found, and regions that break a rule are refused.

Queues run in a random order in the interpreter (`run --interleave`): reads, writes, answers, fills
and what is displaced race as they may between NIC and host. The real thing races in test_kvs.py.
"""

import collections
import pathlib
import random
import struct

import cached_register as register
import pytest
from nicforge.flow import (
    Cache,
    Discard,
    Drop,
    Element,
    FlowError,
    FromNet,
    In,
    Out,
    Program,
    Queue,
    Reply,
    cache_code,
    packet,
    u32,
    u64,
)
from nicforge.linearizable import Operation, histories, linearizable

KEYS = 5
#: The policy of which writes may find the cache busy.
LATE = ("write-back", "allocate")
#: (buckets, ways): the smaller, the more is displaced.
SIZES = [(1, 1), (1, 2), (2, 2), (1, 4)]


def requests(seed, many):
    """Frames that read and write few keys; what is written is never the same twice."""
    chance = random.Random(seed)
    layout = register.LAYOUT
    return [
        layout.pack(0, chance.random() < 0.5, chance.randrange(KEYS), number).ljust(60, b"\0")
        for number in range(1, many + 1)
    ]


def answers(path):
    """What was answered when: operations by key."""
    history = collections.defaultdict(list)
    data, at = path.read_bytes(), 24
    assert data[:4] == struct.pack("<I", 0xA1B23C4D), "times are nanoseconds"
    while at + 16 <= len(data):
        seconds, nanoseconds, length = struct.unpack_from("<III", data, at)
        began, write, key, version = register.LAYOUT.unpack_from(data, at + 16)
        history[key].append(Operation(began, seconds * 10**9 + nanoseconds, write == 1, version))
        at += 16 + length
    return history


@pytest.fixture
def race(capture, tmp_path):
    """Runs a program on random requests in a random order: the report, and the keys whose history
    is impossible."""

    def run(program, seed, many=400):
        out = tmp_path / "out.pcap"
        report = program.run(
            capture(requests(seed, many)), "--interleave", str(seed), "--out", str(out)
        )
        return report, histories(answers(out))

    return run


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("policy", [*register.POLICIES, "late"])
def test_every_policy_is_linearizable_in_any_order_of_queues(race, policy, size):
    program = register.program(
        *(policy if policy != "late" else LATE), *size, late=policy == "late"
    )
    for seed in range(2):
        report, wrong = race(program, seed)
        busy = report["drops"].get("busy", 0)
        assert wrong == "" and sum(report["sent"]) + busy == 400, (seed, wrong, report)
        assert busy == 0 or policy[0] == "write-back"


FAULTS = {
    "a fill forgets what was displaced meanwhile": ("near__written == stored", "true"),
    "a fill overwrites what was written meanwhile": (
        "(near__was >> near__way & 1) == 0 :",
        "true :",
    ),
    "a late write's answer leaves what was there": (
        "(near__was >> near__way & 1) == 0 :",
        "false :",
    ),
    "dirty entries are thrown away": ("displaced(near__old_key, near__old_value);", ""),
    "what was displaced is still found": ("nf_update(&near_keys, near__place, request.key);", ""),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_faults_in_a_write_back_cache_are_found(race, monkeypatch, fault):
    right, wrong = FAULTS[fault]
    hits = 0
    for name in ("set", "settle"):
        real = getattr(cache_code, name)

        def broken(*arguments, real=real):
            nonlocal hits
            text = real(*arguments)
            hits += right in text
            return text.replace(right, wrong)

        monkeypatch.setattr(cache_code, name, broken)
    programs = [register.program(*LATE, 1, ways, late=True) for ways in (1, 2)]
    assert hits > 0
    assert any(race(program, seed)[1] for program in programs for seed in range(4))


def test_answers_that_overtake_the_cache_are_found(race, monkeypatch):
    """Write-through: the packet leaves at once, and the cache changes when the next answer
    comes."""
    monkeypatch.setattr(cache_code, "UPDATE", cache_code.KEEP)
    program = register.program("write-through", "allocate", 1, 1)
    assert any(race(program, seed)[1] for seed in range(4))


def test_the_check_knows_what_is_possible():
    write, read = (
        lambda *a: Operation(*a[:2], True, a[2]),
        lambda *a: Operation(*a[:2], False, a[2]),
    )
    assert linearizable([write(1, 2, 7), read(3, 4, 7)])
    assert not linearizable([write(1, 2, 7), read(3, 4, 0)]), "stale"
    assert not linearizable([read(3, 4, 8)]), "from nowhere"
    assert linearizable([write(1, 9, 7), read(2, 3, 0), read(4, 5, 7)])
    assert not linearizable([write(1, 9, 7), read(2, 3, 7), read(4, 5, 0)]), "back in time"
    assert linearizable([write(1, float("inf"), 7), read(2, 3, 0)]), (
        "never answered: need not have happened"
    )
    assert linearizable([write(1, float("inf"), 7), read(2, 3, 7)]), "but may have"
    assert not linearizable([write(1, 2, 7), write(3, 4, 8), read(5, 6, 7)]), "lost"


@pytest.mark.parametrize("uses", [0, 2**32 - 1, 2**32 - 2, 2**32 - 3])
def test_the_least_recently_used_place_makes_room(capture, tmp_path, uses):
    """One bucket of two ways: after writes of 0 and 1 and a read of 0, 1 goes when 2 comes, also
    where the clock wraps."""
    tables = tmp_path / "tables.toml"
    tables.write_text(f"[[near]]\nkey = 0\nvalue = {{ clock = {uses} }}\n")
    order = [(1, 0), (1, 1), (0, 0), (1, 2), (0, 0), (0, 2), (0, 1)]
    frames = [
        register.LAYOUT.pack(0, write, key, at + 1).ljust(60, b"\0")
        for at, (write, key) in enumerate(order)
    ]
    out = tmp_path / "out.pcap"
    for policy in register.POLICIES[1:]:
        words = ["--pcap", capture(frames), "--tables", str(tables), "--out", str(out)]
        register.program(*policy, 1, 2).tool().run("run", "--target", "interp", *words)
        data, size = out.read_bytes(), 16 + 60
        said = [register.LAYOUT.unpack_from(data, at + 16)[1] for at in range(24, len(data), size)]
        assert [said[at] for at in (2, 4, 5, 6)] == [register.HIT, register.HIT, register.HIT, 0], (
            policy
        )


def cached(policy="write-back"):
    """A program of a cache, with its parts, for tests that connect it wrongly."""
    near = Cache("near", register.Key, register.Value, 4, policy=policy)
    network, read = FromNet(), register.Read()
    network >> read
    return network, read, near


def up(name="up", **how):
    return Queue(name, side="host", ordered=False, **how)


def finish(network, read, near, get, reads=None, writes=None):
    """Connects the rest as it should be."""
    request = {"request": register.Request}
    find, set_ = register.Find(), near.set("request.key", "request.value", **request)
    queue = up(channels=["reads", "writes"])
    read.get >> get
    read.set >> set_
    get.hit >> register.AnswerCached() >> Reply()
    get.miss >> (reads or queue["reads"])
    queue["reads"] >> find
    find.hit >> register.Answer() >> near.fill("request.key", "request.value", **request)
    find.miss >> near.nothing(**request)
    near.settled >> Reply()
    set_.done >> register.Leave()
    set_.busy >> Drop("busy", register.Request)
    (
        near.displaced
        >> (writes or queue["writes"])
        >> register.PutDisplaced()
        >> near.written("key", key=register.Key)
    )
    return find, set_


def test_regions_that_break_a_rule_are_refused():
    request = {"request": register.Request}

    def two_queues():
        network, read, near = cached()
        other = Queue("other", side="host", ordered=False)  # of its own
        finish(network, read, near, near.get("request.key", **request), writes=other)
        Program("two_queues", network)

    refused(
        two_queues,
        "what leaves cache `near` goes through",
        "queue `other`",
        "channels of one queue",
    )

    def queue_between():
        class Same(Element):
            inp = In(pkt=packet, request=register.Request)
            out = Out(packet, register.Request)
            body = "out(pkt, request);"

        network, read, near = cached()
        late, same = Queue("late", side="nic"), Same()
        find, _ = finish(network, read, near, near.get("request.key", **request), reads=late)
        late >> same >> up("second") >> find
        Program("between", network)

    refused(queue_between, "queue `late` is between cache `near` and its state")

    def leaves():
        network, read, near = cached()
        find, _ = finish(network, read, near, near.get("request.key", **request))
        find.miss.to.clear()
        find.miss >> register.Leave()  # past the cache
        Program("leaves", network)

    refused(
        leaves,
        "leads out of a region of cache `near`, to element `leave`",
        line=line_here("# past the cache"),
    )

    def overlap():
        network, read, near = cached()
        get, again = near.get("request.key", **request), near.get("request.key", **request)
        finish(network, read, near, get)
        get.miss.to.clear()
        get.miss >> again  # again
        again.hit >> register.AnswerCached() >> Reply()
        again.miss >> near.nothing(**request)
        Program("overlap", network)

    refused(overlap, "regions of cache `near` overlap", line=line_here("# again"))

    def two_caches():
        network, read, near = cached()
        far = Cache("far", register.Key, register.Value, 4)
        find, _ = finish(network, read, near, near.get("request.key", **request))
        far.settled >> Reply()
        find.miss.to.clear()
        find.miss >> far.nothing(**request)  # the wrong one
        Program("two_caches", network)

    refused(
        two_caches,
        "regions of cache `near` and cache `far` overlap",
        line=line_here("# the wrong one"),
    )

    def on_the_nic():
        network, read, near = cached()
        get = near.get("request.key", **request)
        finish(network, read, near, get)
        get.miss.to.clear()
        get.miss >> near.nothing(**request)  # never left
        Program("on_the_nic", network)

    refused(on_the_nic, "begins and ends on the NIC side", line=line_here("# never left"))

    def on_the_host():
        network, read, near = cached()
        get = near.get("request.key", **request)
        finish(network, read, near, get)
        read.get.to.clear()
        read.get >> up("early") >> get
        Program("on_the_host", network)

    refused(on_the_host, "begins a region of cache `near` on the host")

    def past_it():
        network, read, near = cached()
        find, _ = finish(network, read, near, near.get("request.key", **request))
        read.set.to.clear()
        read.set >> up("past") >> find  # nobody asked the cache
        Program("past_it", network)

    refused(
        past_it,
        "uses the state behind cache `near` and is reached past it",
        line=line_here("# nobody asked the cache"),
    )


def test_caches_that_cannot_be_are_refused():
    def make(*more, **how):
        return Cache("near", register.Key, register.Value, *more, **how)

    refused(
        lambda: make(4, policy="write-back", on_miss="no-allocate"),
        "is write-back without allocation",
    )
    refused(
        lambda: make(4, policy="write-around"),
        "has policy `write-around`",
        "write-through, write-back",
    )
    refused(lambda: make(4, on_miss="ask"), "has on_miss `ask`")
    refused(lambda: make(0), "needs at least 1 bucket")
    refused(lambda: make(4, 0), "has 0 ways")
    refused(lambda: make(4).set("k", "v"), "is write-through")
    refused(lambda: make(4).written("k"), "displaces nothing")
    refused(lambda: Cache("no name", u32, u64, 16), "is no name in C")
    refused(lambda: make(4).get("key", key=u32, other=packet), "one packet at most")


def test_channels_are_named():
    queue = Queue("q", channels=["a", "b"])
    refused(lambda: Pass() >> queue, "queue `q` has channels", 'queue["a"]')
    refused(lambda: queue["c"], "has no channel `c` (there are: `a`, `b`)")
    refused(lambda: Queue("q", channels=["a", "a"]), "has two channels `a`")
    refused(lambda: Queue("q", channels="ab"), "are no names")
    network = FromNet()
    network >> Pass() >> queue["a"] >> Reply()
    queue["b"] >> Discard(u32)
    assert "void q_a(nf_pkt pkt)" in Program("channels", network).source().text


class Pass(Element):
    inp = In(pkt=packet)
    out = Out(packet)
    body = "out(pkt);"


def refused(function, *words, line=None):
    """Asserts a FlowError with words, and with its place in this file."""
    with pytest.raises(FlowError) as caught:
        function()
    for word in words:
        assert word in str(caught.value), str(caught.value)
    if line is not None:
        assert (caught.value.place.file, caught.value.place.line) == (__file__, line)


def line_here(text):
    lines = pathlib.Path(__file__).read_text().splitlines()
    found = [at + 1 for at, line in enumerate(lines) if line.endswith(text)]
    assert len(found) == 1
    return found[0]
