"""Random pipelines: plain Python, the interpreter and targets do the same."""

import os
import random
import struct

import pytest
from pipelines import PORTS, Pipeline

FRAMES = 60


def frames(seed):
    dice = random.Random(seed)
    sizes = [dice.choice([14, 40, 64, 64, 90]) for _ in range(FRAMES)]
    return [
        bytes(dice.choice([0, 1, 7, 255, dice.randrange(256)]) for _ in range(size))
        for size in sizes
    ]


def captured(path):
    data, at, found = path.read_bytes() if path.exists() else b"", 24, []
    while at < len(data):
        size = struct.unpack_from("<I", data, at + 8)[0]
        found.append(data[at + 16 : at + 16 + size])
        at += 16 + size
    return found


def judge(seed, capture, tmp_path, targets):
    """Compares one pipeline; how many of its frames left."""
    pipeline, sent = Pipeline(seed), frames(seed)
    wanted = [pipeline.run(frame) for frame in sent]
    pcap, out = capture(sent), tmp_path / "out.pcap"
    report = pipeline.program.run(pcap, "--out", str(out))
    reasons = [one for one in wanted if isinstance(one, str)]
    dropped = {reason: count for reason, count in report["drops"].items() if count}
    assert dropped == {reason: reasons.count(reason) for reason in reasons}, seed
    for port in range(PORTS):
        here = [one[1] for one in wanted if not isinstance(one, str) and one[0] == port]
        assert captured(tmp_path / f"out.{port}.pcap") == here, f"seed {seed}, port {port}"
    entries = {
        table["table"]: table["entries"] for table in report["tables"] if table["kind"] == "hash"
    }
    assert entries == {name: len(pipeline.counts[name]) for name in entries}, seed
    for target in targets:
        # Queues that are left in the kernel need a plan of several stages.
        if target != "xdp" or not pipeline.queues:
            pipeline.program.verify(target, "--pcap", pcap)
    return len(wanted) - len(reasons)


#: The first pipeline's seed.
FIRST = int(os.environ.get("NICFORGE_RANDOM_SEED", "0"))


def some(seeds, capture, tmp_path):
    """All on xdp that can run there, every tenth on dpdk, too; how many frames left."""
    targets = {0: ("xdp", "dpdk")}
    return sum(
        judge(FIRST + seed, capture, tmp_path, targets.get(seed % 10, ("xdp",))) for seed in seeds
    )


def test_pipelines_do_the_same_everywhere(capture, tmp_path, needs_root):
    assert some(range(5), capture, tmp_path) > 0


@pytest.mark.soak
def test_many_pipelines_do_the_same_everywhere(capture, tmp_path, needs_root):
    assert some(range(5, 205), capture, tmp_path) > 0


def test_a_wrong_judge_is_found(capture, tmp_path, monkeypatch):
    """The comparison can fail: where Python adds one more than the element, something differs."""
    monkeypatch.setattr(Pipeline, "end", lambda self, out, end=Pipeline.end: wrong(end(self, out)))
    with pytest.raises(AssertionError):
        judge(FIRST, capture, tmp_path, ())


def wrong(end):
    return lambda p, x: end(p, x + 1)
