"""The driver as a library: `import nicforge`."""

import ast
import contextlib
import io
import os
import pathlib
import re
import signal
import threading

import nicforge
import pytest
from nicforge import native

ROOT = pathlib.Path(__file__).resolve().parents[2]
STUB = ROOT / "python/nicforge/_native.pyi"
SMALL = """
#include "nicforge.h"
NF_PORTS(1);
void net_recv(nf_pkt pkt) { %s }
"""


@pytest.fixture
def small(tmp_path):
    def write(body):
        path = tmp_path / "small.c"
        path.write_text(SMALL % body)
        return path

    return write


def test_the_page_prints_what_it_says(monkeypatch):
    page = (ROOT / "docs/api.md").read_text()
    (code,) = re.findall(r"```python\n(.*?)```", page, re.S)
    (said,) = re.findall(r"```text\n(.*?)```", page, re.S)
    monkeypatch.chdir(ROOT)
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        exec(code, {})
    assert printed.getvalue() == said


def test_stubs_have_what_the_module_has():
    module = native.load()
    tree = ast.parse(STUB.read_text())
    classes = {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}
    functions = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
    own = {name for name in dir(module) if not name.startswith("__")}
    assert own == set(classes) | functions
    assert set(nicforge.__all__) - {"load"} == own - {"diagnose", "opaque"}
    for name, node in classes.items():
        members = {
            part.target.id if isinstance(part, ast.AnnAssign) else part.name
            for part in node.body
            if isinstance(part, ast.AnnAssign | ast.FunctionDef)
        }
        if name == "Error":
            continue
        there = {one for one in vars(getattr(module, name)) if not one.startswith("_")}
        assert there == {one for one in members if not one.startswith("_")}, name


def test_results_are_those_of_the_command():
    program = nicforge.load(ROOT / "examples/nat")
    plan = program.plan("bluefield2")
    assert plan.as_dict()["schema"] == "nicforge/plan"
    assert plan.as_dict()["predicted"]["rate_pps"] == plan.rate_pps
    found = plan.simulate(packets=2000)
    assert found.as_dict()["packets"]["offered"] == 2000
    assert found.delivered_pps > 0 and 0 <= found.loss <= 1
    assert plan.max_rate() > 0
    assert "net_recv" in program.air() and "nf_" in program.code("dpdk")
    assert "nat" in plan._repr_html_() and "<table>" in plan._repr_html_()


def test_what_a_full_table_gave_up_is_left_out(tmp_path, needs_root):
    """The kernel gives up others than the reference, so only the other events are compared."""
    path = tmp_path / "recent.c"
    path.write_text(
        """#include <nicforge.h>
        NF_TABLE(lru, recent, uint16_t, uint64_t, 3);
        void net_recv(nf_pkt pkt)
        {
            uint64_t before;
            uint16_t key;
            if (!nf_load(pkt, 24, &key) || !nf_load(pkt, 26, &before)) {
                nf_drop(pkt, "short");
                return;
            }
            nf_lookup(&recent, key, &before);
            nf_update(&recent, key, before + 1);
            nf_send(pkt, before & 1);
        }
        """
    )
    found = nicforge.load(path).verify(pcap=[str(ROOT / "examples/nf_chain/traffic.pcap")])
    assert found and found.events == found.matching > 0 and found.given_up > 0
    assert found.events + found.given_up + found.beyond == 1391


def test_builds_and_saves(tmp_path):
    program = nicforge.load(ROOT / "examples/l2_forward")
    made = pathlib.Path(program.build("xdp", tmp_path / "l2.o"))
    assert made.read_bytes()[:4] == b"\x7fELF"
    lifted = nicforge.load(made)
    assert lifted.ports >= 1 and lifted.check("u280")[0].target == "u280"
    program.plan("panic").save(tmp_path / "plan.json")
    assert '"nicforge/plan"' in (tmp_path / "plan.json").read_text()


def test_what_is_wrong_is_one_exception(small, tmp_path):
    cases = [
        (lambda: nicforge.load(tmp_path / "none.c"), 1, "cannot read"),
        (lambda: nicforge.load(small("nothing(pkt);")), 1, "small.c"),
        (lambda: nicforge.load(small("nf_send(pkt, 0);")).plan("nowhere"), 2, "no such target"),
        (lambda: nicforge.load(small("nf_send(pkt, 0);")).run(), 2, "no packets to run on"),
        (lambda: nicforge.load(small("nf_send(pkt, 0);")).verify("interp"), 2, "reference"),
        (lambda: nicforge.target("nowhere"), 2, "no such target"),
    ]
    for call, code, text in cases:
        with pytest.raises(nicforge.Error, match=text) as caught:
            call()
        assert caught.value.code == code and "error: " not in str(caught.value)[:7]
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        _ = nicforge.nothing


def test_a_run_says_what_became_of_each_packet(small, capture):
    frame = bytes(range(60))
    path = small('if (nf_len(pkt) > 60) nf_drop(pkt, "long"); else nf_send(pkt, 0);')
    run = nicforge.load(path, pcap=[capture([frame, frame + b"x"])]).run()
    sent, dropped = run.outputs
    assert (sent.kind, sent.port, sent.data, sent.event) == ("send", 0, frame, 0)
    assert (dropped.kind, dropped.reason, dropped.event) == ("drop", "long", 1)
    with pytest.raises(IndexError, match="no table `none`"):
        run.table("none")


@pytest.fixture
def ctrl_c():
    """Ctrl-C raises, also where whoever started the tests ignores it, as shells do behind `&`."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def test_ctrl_c_ends_long_work_and_leaves_the_module_usable(ctrl_c):
    plan = nicforge.load(ROOT / "examples/firewall").plan("bluefield2")
    begun = threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT))
    begun.start()
    with pytest.raises(KeyboardInterrupt):
        # Hours, if nobody ends it.
        plan.simulate(duration=3600.0)
    begun.join()
    assert plan.simulate(packets=100).as_dict()["packets"]["offered"] == 100
