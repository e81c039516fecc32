"""The programs of examples/flow/functions, aes, analytics, bodies: against the interpreter, against
a model, and running."""

import collections
import pathlib
import random
import struct
import subprocess
import sys

import pytest

FLOW = pathlib.Path(__file__).resolve().parents[2] / "examples/flow"
sys.path[:0] = [str(FLOW.parent), str(FLOW / "functions")]
import classify  # noqa: E402
import packets  # noqa: E402
import sequencer  # noqa: E402


def script(path, *arguments):
    words = [sys.executable, FLOW / path, *arguments]
    return subprocess.run(
        words, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=600
    )


def capture(path, frames):
    """A capture with a packet every microsecond."""
    with open(path, "wb") as file:
        file.write(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1))
        for at, frame in enumerate(frames):
            file.write(struct.pack("<IIII", 1, at, len(frame), len(frame)) + frame)
    return str(path)


def frames_of(path):
    data, at = path.read_bytes(), 24
    while at < len(data):
        length = struct.unpack_from("<I", data, at + 8)[0]
        yield data[at + 16 : at + 16 + length]
        at += 16 + length


def frame(source, port, payload, dport=80):
    datagram = packets.udp(source, "10.0.0.2", port, dport, payload)
    ip = packets.ipv4(source, "10.0.0.2", 17, datagram)
    return packets.pad(packets.ethernet("02:00:00:00:00:02", "02:00:00:00:00:01", 0x0800, ip))


@pytest.fixture(scope="module")
def flows():
    """Packets of 300 flows, the first ones much more often, and each flow's key."""
    numbers = random.Random(3)
    chosen = [min(numbers.randrange(300) for _ in range(4)) for _ in range(3000)]
    return [
        (
            flow,
            frame(
                f"10.1.{flow // 200}.{flow % 200 + 1}",
                1000 + flow,
                bytes(numbers.randrange(1, 200)),
            ),
        )
        for flow in chosen
    ]


def test_no_flow_is_underestimated_and_heavy_ones_are_marked(flows, tmp_path):
    out = tmp_path / "out.pcap"
    report = classify.program.run(
        capture(tmp_path / "in.pcap", [each for _, each in flows]), "--out", str(out)
    )
    assert report["dropped"] == 0
    # Both ports have one file each; all came in by port 0.
    sent = list(frames_of(tmp_path / "out.1.pcap"))
    truth, rows, over = collections.Counter(), [collections.Counter() for _ in range(4)], 0
    for (flow, given), got in zip(flows, sent, strict=True):
        length = struct.unpack_from(">H", given, 16)[0]
        truth[flow] += length
        key = given[26:34] + given[34:38] + bytes([given[23], 0, 0, 0])
        columns = [packets.nf_hash(seed, key) % classify.COLUMNS for seed in (1, 2, 3, 4)]
        least = min(row[column] for row, column in zip(rows, columns, strict=True)) + length
        for row, column in zip(rows, columns, strict=True):
            row[column] = max(row[column], least)
        assert least >= truth[flow], "a sketch never says too little"
        over += least > truth[flow]
        assert got[15] == (classify.MARK if least > classify.HEAVY_BYTES else 0), (
            f"flow {flow}, {least} bytes"
        )
        assert packets.checksum(got[14:34]) == 0, "the header's checksum is right"
    # 300 flows in four rows of 1,024 columns hardly ever meet in all four.
    assert over < len(flows) / 100
    assert 0 < sum(each[15] == classify.MARK for each in sent) < len(sent)


@pytest.mark.parametrize(
    "target", ["xdp", pytest.param("dpdk", marks=pytest.mark.soak), "liquidio"]
)
def test_the_sketch_is_the_same_on_targets(flows, tmp_path, target, request):
    if target == "xdp":
        request.getfixturevalue("needs_root")
    path = capture(tmp_path / "in.pcap", [each for _, each in flows[:1000]])
    assert "matches the reference: 1000 of 1000 events, 4 of 4 tables" in classify.program.verify(
        target, "--pcap", path
    )


def requests():
    numbers = random.Random(5)
    for at in range(400):
        groups = 0 if at % 50 == 7 else numbers.getrandbits(32) & numbers.getrandbits(32)
        yield groups, frame("10.0.0.1", 2000, struct.pack(">IQ", groups, 0), dport=sequencer.PORT)


def test_numbers_are_one_order_and_every_group_counts(tmp_path):
    out = tmp_path / "out.pcap"
    report = sequencer.program.run(
        capture(tmp_path / "in.pcap", [each for _, each in requests()]), "--out", str(out)
    )
    asked = [groups for groups, _ in requests() if groups]
    sent = [struct.unpack_from(">IQ", each, 42) for each in frames_of(out)]
    assert sent == [(groups, number) for number, groups in enumerate(asked)]
    assert report["drops"]["no groups"] == 400 - len(asked)


@pytest.mark.parametrize(
    "target", ["xdp", "dpdk", pytest.param("bluefield2", marks=pytest.mark.soak)]
)
def test_the_sequencer_is_the_same_on_targets(tmp_path, target, request):
    if target == "xdp":
        request.getfixturevalue("needs_root")
    path = capture(tmp_path / "in.pcap", [each for _, each in requests()])
    assert "matches the reference: 400 of 400 events, 2 of 2 tables" in sequencer.program.verify(
        target, "--pcap", path
    )


def test_both_kernels_encrypt_as_the_openssl_command(needs_root):
    done = script("aes/aes.py", "--self-test")
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("120 of 120 requests as the openssl command; 3 malformed dropped") == 2


@pytest.mark.parametrize(
    "name, answers", [("search", 138), pytest.param("cipher", 1, marks=pytest.mark.soak)]
)
def test_bodies_of_plain_c_do_what_python_and_the_standard_say(needs_root, name, answers):
    done = script(f"bodies/{name}.py", "--self-test")
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{answers} of {answers} answers as expected" in done.stdout
    assert done.stdout.count("matches the reference: ") == (2 if name == "search" else 4)


def test_two_nodes_rank_words_as_counting_does(needs_root):
    done = script("analytics/analytics.py", "--self-test")
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("as counted;") == 2 and "not as counted" not in done.stdout
