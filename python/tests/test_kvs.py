"""The store of examples/flow/kvs: every variant in the kernel and a process, against the interpreter and a real memcached."""

import os
import pathlib
import subprocess
import sys

import pytest

FOLDER = pathlib.Path(__file__).resolve().parents[2] / "examples/flow/kvs"


def kvs(*arguments, seconds=120):
    return subprocess.run(
        [sys.executable, FOLDER / "kvs.py", *arguments],
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        timeout=seconds,
    )


@pytest.fixture
def needs_root():
    if os.geteuid() != 0:
        why = "this test loads BPF programs and makes network namespaces: run it as root"
        assert "CI" not in os.environ, why
        pytest.skip(why)


@pytest.fixture(scope="module")
def traffic(tmp_path_factory):
    path = tmp_path_factory.mktemp("kvs") / "requests.pcap"
    words = [sys.executable, FOLDER / "load.py", "--mixed", "60", "--requests", "400", "--pcap", path]
    subprocess.run(words, check=True)
    return path


VARIANTS = {"cpu": "1 of 1 tables", "split": "1 of 1 tables", "nic-cache": "2 of 2 tables"}


@pytest.mark.parametrize("variant", VARIANTS)
def test_every_variant_does_in_the_kernel_and_a_process_what_it_means(needs_root, traffic, variant):
    done = kvs("--variant", variant, "verify", "--target", "xdp", "--pcap", traffic)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"matches the reference: 400 of 400 events, {VARIANTS[variant]}" in done.stdout


def test_all_variants_send_the_same(traffic, tmp_path):
    sent = set()
    for variant in VARIANTS:
        out = tmp_path / f"{variant}.pcap"
        done = kvs("--variant", variant, "run", "--target", "interp", "--pcap", traffic, "--out", out)
        assert done.returncode == 0, done.stderr
        sent.add(out.read_bytes())
    assert len(sent) == 1


@pytest.mark.parametrize("variant", VARIANTS)
def test_it_serves_a_client_as_memcached_does(needs_root, variant):
    done = kvs("--variant", variant, "--self-test")
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{variant}: 3000 requests of both protocols, answers like memcached" in done.stdout


def test_the_plan_has_the_store_in_the_process():
    done = kvs("--variant", "nic-cache", "plan", "--target", "xdp")
    assert done.returncode == 0, done.stderr
    lines = {line.split()[0]: line for line in done.stdout.splitlines() if line.strip()}
    assert "process" in lines["requests"] and "cpu" in lines["net_recv"]
    assert "process-dram" in lines["items"] and "process" not in lines["cache"]
