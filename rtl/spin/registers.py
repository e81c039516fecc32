"""The registers of nf_spin_top, in one place; run, it makes nf_spin_registers.sv, .h and .json
beside this file."""

import json
import textwrap
from pathlib import Path

HERE = Path(__file__).resolve().parent
CONTEXTS, RULES = 4, 4

# Words the host writes: name, how many, what. Only the first READABLE words can be read back.
CONTROL = [
    ("apply", 1, "writing it makes rules take effect, between two packets"),
    (
        "options",
        1,
        "[0] ranges of words reversed, [1] drop where there is no room, [2] slots while both sizes have one",
    ),
    ("contexts", 1, "[3:0] set up, [11:8] payload handlers of a message one at a time"),
    ("home_limit", 1, "tasks in the home cluster from which on others are asked"),
    ("patience", 1, "cycles after which a silent message may lose its queue"),
    ("sets", CONTEXTS, "a ruleset's word: see nf_spin_match"),
    (
        "rules",
        CONTEXTS * RULES * 4,
        "four rules a ruleset, each select, mask, start, end: see nf_spin_match",
    ),
    ("context_table", CONTEXTS * 10, "ten words a context: see nf_spin_her"),
]
READABLE = 5

# Words the host reads.
STATUS = [
    ("pending", "[0] rules written have not yet taken effect"),
    ("matched", "frames for handlers"),
    ("unmatched", "frames passed on"),
    ("dropped_full", "no slot was free"),
    ("dropped_long", "longer than a large slot"),
    ("dropped_context", "the context is not set up"),
    ("dropped_cell", "no cell was free"),
    ("dropped_queue", "no message queue was free"),
    ("packets", "packets the scheduler took"),
    ("messages", "messages that began"),
    ("ended", "messages that came to their end"),
    ("abandoned", "messages that gave their queue to another"),
    ("late", "packets that came after their message had closed"),
    ("freed", "packets freed"),
    ("small_used", "small slots in use"),
    ("large_used", "large slots in use"),
    ("most_lines", "most lines of packet memory in use at any time"),
    ("sent", "frames sent by handlers"),
    ("host_writes", "writes into the host's memory"),
    ("host_refused", "write bursts that were refused"),
]


def addresses():
    """Every register: name, byte address, words, whether the host writes it, what it is."""
    at = 0
    for name, words, what in CONTROL:
        yield name, at, words, True, what
        at += 4 * words
    for name, what in STATUS:
        yield name, at, 1, False, what
        at += 4


def as_json():
    registers = [
        {"name": name, "address": at, "words": words, "write": write, "what": what}
        for name, at, words, write, what in addresses()
    ]
    return json.dumps({"contexts": CONTEXTS, "registers": registers}, indent=1) + "\n"


def as_header():
    lines = [
        "// Registers of nf_spin_top, by byte address. Made by registers.py.",
        "#ifndef NF_SPIN_REGISTERS_H",
        "#define NF_SPIN_REGISTERS_H",
        "",
    ]
    for name, at, words, write, what in addresses():
        count = f" {words} words," if words > 1 else ""
        lines += [
            *textwrap.wrap(
                f"{'write' if write else 'read'},{count} {what}",
                100,
                initial_indent="// ",
                subsequent_indent="// ",
            ),
            f"#define NF_SPIN_{name.upper()} 0x{at:03x}",
        ]
    return "\n".join([*lines, "", "#endif", ""])


def as_verilog():
    control, status = sum(words for _, words, _ in CONTROL), len(STATUS)
    width = (control + status - 1).bit_length() + 2
    ports = [
        f"    output logic [{32 * words - 1}:0] {name},"
        for name, words, _ in CONTROL
        if name != "apply"
    ]
    reads = [f"    input  wire  [31:0] {name}," for name, _ in STATUS]
    slices, at = [], 0
    for name, words, _ in CONTROL:
        if name != "apply":
            slices.append(f"    assign {name} = control[{32 * at} +: {32 * words}];")
        at += words
    bus = [
        f"input  wire  [{width - 1}:0] s_axil_awaddr",
        "input  wire         s_axil_awvalid",
        "output logic        s_axil_awready",
        "input  wire  [31:0] s_axil_wdata",
        "input  wire  [3:0]  s_axil_wstrb",
        "input  wire         s_axil_wvalid",
        "output logic        s_axil_wready",
        "output logic [1:0]  s_axil_bresp",
        "output logic        s_axil_bvalid",
        "input  wire         s_axil_bready",
        f"input  wire  [{width - 1}:0] s_axil_araddr",
        "input  wire         s_axil_arvalid",
        "output logic        s_axil_arready",
        "output logic [31:0] s_axil_rdata",
        "output logic [1:0]  s_axil_rresp",
        "output logic        s_axil_rvalid",
        "input  wire         s_axil_rready",
    ]
    names = [port.split()[-1] for port in bus]
    joined = [f".{name}({name})" for name in names]
    status_words = ", ".join(name for name, _ in reversed(STATUS))
    newline = "\n"
    return f"""// Registers of nf_spin_top behind AXI4-Lite: nf_axil_registers with names.
// Made by registers.py; nf_spin_registers.h says what is where.
//
// Ports       s_axil_*: the bus; an output for each register that the host writes, an input for
//             each it reads; `apply` pulses when it is written.
// Latency     a read is answered the cycle after its address, a write the cycle after address and
//             data are both there.
// Throughput  one read and one write every two cycles.
// Reset       synchronous; all words are zero.
`default_nettype none
module nf_spin_registers (
    input  wire         clk,
    input  wire         rst,
{newline.join(f"    {port}," for port in bus)}
    output logic        apply,
{newline.join(ports)}
{newline.join(reads)[:-1]}
);
    localparam CONTROL = {control}, STATUS = {status};
    wire [CONTROL*32-1:0] control;
    wire [CONTROL-1:0]    written;
    nf_axil_registers #(
        .CONTROL(CONTROL), .STATUS(STATUS), .READABLE({(1 << READABLE) - 1}), .STROBES(0), .ADDRESS({width})
    ) words (
        .clk(clk), .rst(rst),
        {("," + newline + "        ").join(joined)},
        .control(control), .written(written),
        .status({{{status_words}}})
    );
    assign apply = written[0];
{newline.join(slices)}
    wire unused = &{{1'b0, written, control[31:0]}};
endmodule
`default_nettype wire
"""


FILES = {
    "nf_spin_registers.sv": as_verilog,
    "nf_spin_registers.h": as_header,
    "nf_spin_registers.json": as_json,
}

if __name__ == "__main__":
    for name, make in FILES.items():
        (HERE / name).write_text(make())
