"""The store of examples/flow/kvs: every variant in the kernel and a process, against the
interpreter and a real memcached."""

import pathlib
import subprocess
import sys

import pytest

FOLDER = pathlib.Path(__file__).resolve().parents[2] / "examples/flow/kvs"


def kvs(*arguments, seconds=600):
    return subprocess.run(
        [sys.executable, FOLDER / "kvs.py", *arguments],
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        timeout=seconds,
    )


@pytest.fixture(scope="module")
def traffic(tmp_path_factory):
    path = tmp_path_factory.mktemp("kvs") / "requests.pcap"
    words = [
        sys.executable,
        FOLDER / "load.py",
        "--mixed",
        "60",
        "--requests",
        "400",
        "--pcap",
        path,
    ]
    subprocess.run(words, check=True)
    return path


#: Arguments of each variant, and what its comparison says about tables.
VARIANTS = {
    "cpu": (["--variant", "cpu"], "1 of 1 tables"),
    "sharded": (["--variant", "sharded"], "1 of 1 tables"),
    "split": (["--variant", "split"], "1 of 1 tables"),
    "write-through": (["--variant", "nic-cache"], "4 of 4 tables"),
    "write-back": (["--variant", "nic-cache", "--policy", "write-back"], "6 of 6 tables"),
    "8 ways": (
        ["--variant", "nic-cache", "--policy", "write-back", "--ways", "8"],
        "6 of 6 tables",
    ),
}


def some(variants, *kept):
    """The variants, of which `make test` takes those that are kept; all of them in `make soak`."""
    return [pytest.param(v, marks=[] if v in kept else [pytest.mark.soak]) for v in variants]


@pytest.mark.parametrize("variant", some(VARIANTS, "write-back"))
def test_every_variant_does_in_the_kernel_and_a_process_what_it_means(needs_root, traffic, variant):
    words, tables = VARIANTS[variant]
    # A cache of a few places, so that much has to make room.
    done = kvs(
        "--buckets",
        "4",
        "--ways",
        "4",
        *words,
        "verify",
        "--target",
        "xdp",
        "--candidate",
        "0",
        "--pcap",
        traffic,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"matches the reference: 400 of 400 events, {tables}" in done.stdout


def test_all_variants_send_the_same(traffic, tmp_path):
    sent = set()
    for variant, (words, _) in VARIANTS.items():
        out = tmp_path / f"{variant}.pcap"
        done = kvs(*words, "run", "--target", "interp", "--pcap", traffic, "--out", out)
        assert done.returncode == 0, done.stderr
        sent.add(out.read_bytes())
    assert len(sent) == 1


#: Where queues wait: cores of this machine, in one process and in two, and threads that stand in
#: for a NIC's.
WAITING = [
    ("write-through", "--target", "dpdk"),
    ("write-back", "--target", "dpdk", "--host-process"),
    ("write-back", "--target", "liquidio"),
]


@pytest.mark.parametrize("waiting", some(WAITING, WAITING[1]), ids=" ".join)
def test_a_cache_does_what_it_means_where_queues_wait(traffic, waiting):
    policy, *where = waiting
    words = [
        "--policy",
        policy,
        "--stage",
        "--buckets",
        "4",
        "--ways",
        "4",
        "verify",
        *where,
        "--candidate",
        "0",
    ]
    done = kvs(*words, "--pcap", traffic)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "matches the reference: 400 of 400 events" in done.stdout


def test_a_cache_is_simulated_on_a_nic(traffic):
    words = ["sim", "--target", "liquidio", "--rate", "0.2Mpps", "--pcap", traffic]
    done = kvs("--policy", "write-back", *words)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "loss 0.000 %" in done.stdout, done.stdout


@pytest.mark.soak
def test_it_serves_a_client_on_dpdk(needs_root):
    words = [
        "--policy",
        "write-back",
        "--ways",
        "8",
        "--self-test",
        "--target",
        "dpdk",
        "--host-process",
    ]
    done = kvs(*words, seconds=240)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "3000 requests of both protocols, answers like memcached" in done.stdout
    assert "9000 GETs and 1000 SETs, all values as it wrote them" in done.stdout
    assert "the history is linearizable" in done.stdout
    assert "1 times 8 places" in done.stdout


# With real clients each variant takes half a minute.
@pytest.mark.parametrize("variant", some(VARIANTS, "write-through"))
def test_it_serves_a_client_as_memcached_does_and_no_answer_is_stale(needs_root, variant):
    done = kvs(*VARIANTS[variant][0], "--self-test", seconds=240)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "3000 requests of both protocols, answers like memcached" in done.stdout
    assert "9000 GETs and 1000 SETs, all values as it wrote them" in done.stdout
    assert "the history is linearizable" in done.stdout


def test_the_plan_has_the_store_in_the_process():
    done = kvs("--policy", "write-back", "plan", "--target", "xdp")
    assert done.returncode == 0, done.stderr
    lines = {line.split()[0]: line for line in done.stdout.splitlines() if line.strip()}
    assert "process" in lines["up_late"] and "cpu" in lines["net_recv"]
    assert "process-dram" in lines["items"] and "process" not in lines["cache_keys"]
