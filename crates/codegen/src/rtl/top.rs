//! What `nf_top` has around handlers of either form: its ports, the way in, registers and counters.

use std::fmt::Write as _;

use nicforge_ir::Program;

use super::module::Body;
use super::tables::{TableForm, bits_below};
use super::{ADDRESS_BITS, LONGEST, SHORTEST, SLOT_LINES};

pub const PORTS: &str = r"    input  wire          clk,
    input  wire          rst,
    input  wire  [ 63:0] time_ns,
    input  wire  [ 63:0] seed,
    input  wire  [511:0] s_axis_tdata,
    input  wire  [ 63:0] s_axis_tkeep,
    input  wire          s_axis_tlast,
    input  wire          s_axis_tvalid,
    output logic         s_axis_tready,
    input  wire  [ 15:0] s_axis_tuser,
    output logic [511:0] m_axis_tdata,
    output logic [ 63:0] m_axis_tkeep,
    output logic         m_axis_tlast,
    output logic         m_axis_tvalid,
    input  wire          m_axis_tready,
    output logic [ 15:0] m_axis_tuser,
    output logic [511:0] h_axis_tdata,
    output logic [ 63:0] h_axis_tkeep,
    output logic [127:0] h_axis_tuser,
    output logic         h_axis_tlast,
    output logic         h_axis_tvalid,
    input  wire          h_axis_tready,
    input  wire  [ 15:0] s_axil_awaddr,
    input  wire          s_axil_awvalid,
    output logic         s_axil_awready,
    input  wire  [ 31:0] s_axil_wdata,
    input  wire  [  3:0] s_axil_wstrb,
    input  wire          s_axil_wvalid,
    output logic         s_axil_wready,
    output logic [  1:0] s_axil_bresp,
    output logic         s_axil_bvalid,
    input  wire          s_axil_bready,
    input  wire  [ 15:0] s_axil_araddr,
    input  wire          s_axil_arvalid,
    output logic         s_axil_arready,
    output logic [ 31:0] s_axil_rdata,
    output logic [  1:0] s_axil_rresp,
    output logic         s_axil_rvalid,
    input  wire          s_axil_rready,
    // for simulations: what events led to, in order
    output logic         rec_valid,
    output logic [  4:0] rec_kind,
    output logic [ 63:0] rec_data
";

/// Streams of `nf_top`, told in its first comment.
pub const STREAMS: &str = "\
    // s_axis: frames in, tuser = {5'b0, tick, host message, bad frame, port[7:0]}. m_axis: frames\n\
    // out, tuser = {kind[7:0], port[7:0]}, kind 0 to a port, 1 to the operating system. h_axis: to\n\
    // the host, see nf_egress. s_axil: see registers.json.\n";

/// Opening of `nf_top`, with its parameters and ports.
pub fn opening(program: &Program) -> String {
    let ticks = match periods(program).is_empty() {
        true => "",
        false => {
            ",\n    parameter integer TICKS = 1  // 0: timers tick by s_axis, as in simulations"
        }
    };
    format!(
        "`default_nettype none\n/* verilator lint_off UNUSEDSIGNAL */\n/* verilator lint_off UNSIGNED */\n\
         module nf_top #(\n    parameter integer DROP_WHEN_FULL = 0{ticks}\n) (\n{PORTS});\n"
    )
}

/// Nanoseconds from one tick to the next, of each timer.
fn periods(program: &Program) -> Vec<u64> {
    program.timers().map(|(_, period)| period).collect()
}

/// Ticks of timers between frames, in front of the way in.
fn ticker(out: &mut Body, periods: &[u64]) {
    wires(out, &[("k_valid", 1), ("k_ready", 1), ("k_last", 1), ("k_keep", 64), ("k_user", 16)]);
    wires(out, &[("k_time", 64)]);
    let list: Vec<String> = periods.iter().rev().map(|period| format!("64'd{period}")).collect();
    let _ = writeln!(
        out,
        "  nf_ticker #(\n      .TIMERS({}), .PERIODS({{{}}}), .TICKS(TICKS)\n  ) u_ticker \
         (\n{}\n  );",
        periods.len(),
        list.join(", "),
        connect(&[
            "clk",
            "rst",
            "time_ns",
            "s_axis_tkeep",
            "s_axis_tlast",
            "s_axis_tvalid",
            "s_axis_tready",
            "s_axis_tuser",
            "m_time=k_time",
            "m_axis_tkeep=k_keep",
            "m_axis_tlast=k_last",
            "m_axis_tvalid=k_valid",
            "m_axis_tready=k_ready",
            "m_axis_tuser=k_user",
        ])
    );
}

/// So many slots, and the way in; `lines` of every frame go with its descriptor.
pub fn ingress(out: &mut Body, program: &Program, lines: u32, slots: u32) {
    let reset = "      .clk(clk),\n      .rst(rst),\n";
    let (aw, sw) = (bits_below(slots * SLOT_LINES), bits_below(slots));
    out.push_str("  // ---- in\n");
    wires(
        out,
        &[
            ("f_valid", 1),
            ("f_take", 1),
            ("f_slot", sw),
            ("in_w_en", 1),
            ("in_w_first", 1),
            ("in_w_addr", aw),
            ("in_w_data", 512),
        ],
    );
    wires(
        out,
        &[
            ("in_w_stall", 1),
            ("d_valid", 1),
            ("d_take", 1),
            ("d_slot", sw),
            ("d_length", 16),
            ("d_port", 8),
        ],
    );
    wires(
        out,
        &[
            ("d_host", 1),
            ("d_tick", 1),
            ("d_time", 64),
            ("d_seed", 64),
            ("d_window", 512 * lines),
            ("frees", 1),
            ("frees_now", 1),
            ("free_slot", sw),
        ],
    );
    wires(
        out,
        &[
            ("e_back", 1),
            ("e_slot", sw),
            ("n_frames", 32),
            ("n_bad", 32),
            ("n_short", 32),
            ("n_long", 32),
        ],
    );
    wires(out, &[("n_full", 32), ("n_sent", 32), ("n_host", 32)]);
    let _ = writeln!(
        out,
        "  nf_slots #(.SLOTS({slots})) u_slots (\n{reset}      .f_valid(f_valid),\n      .f_slot(f_slot),\n      .f_take(f_take),\n      \
         .b_valid(frees_now || e_back),\n      .b_slot(e_back ? e_slot : free_slot)\n  );"
    );
    let periods = periods(program);
    if !periods.is_empty() {
        ticker(out, &periods);
    }
    let from = |port: &str, tick: &str| match periods.is_empty() {
        true => port.to_string(),
        false => format!("{port}={tick}"),
    };
    let _ = writeln!(
        out,
        "  nf_ingress #(\n      .SLOTS({slots}), .LINES({SLOT_LINES}), .MIN_BYTES({SHORTEST}), .MAX_BYTES({LONGEST}), .WIN_LINES({lines}),\n      \
         .DROP_WHEN_FULL(DROP_WHEN_FULL)\n  ) u_ingress (\n{reset}{}\n  );",
        connect(&[
            &from("time_ns", "k_time"),
            "seed",
            "s_axis_tdata",
            &from("s_axis_tkeep", "k_keep"),
            &from("s_axis_tlast", "k_last"),
            &from("s_axis_tvalid", "k_valid"),
            &from("s_axis_tready", "k_ready"),
            &from("s_axis_tuser", "k_user"),
            "f_valid",
            "f_slot",
            "f_take",
            "w_en=in_w_en",
            "w_first=in_w_first",
            "w_addr=in_w_addr",
            "w_data=in_w_data",
            "w_stall=in_w_stall",
            "d_valid",
            "d_take",
            "d_slot",
            "d_length",
            "d_port",
            "d_host",
            "d_tick",
            "d_time",
            "d_seed",
            "d_window",
            "n_frames",
            "n_bad",
            "n_short",
            "n_long",
            "n_full",
        ])
    );
}

/// Declares signals by name and width.
pub fn wires(out: &mut Body, list: &[(&str, u32)]) {
    for (name, width) in list {
        out.logic(*width, name);
    }
}

/// What leaves by the deparser, its streams and counters: the same signals whatever is in front of
/// it.
pub const LEAVING: [&str; 14] = [
    "m_axis_tdata",
    "m_axis_tkeep",
    "m_axis_tlast",
    "m_axis_tvalid",
    "m_axis_tready",
    "m_axis_tuser",
    "h_axis_tdata",
    "h_axis_tkeep",
    "h_axis_tuser",
    "h_axis_tlast",
    "h_axis_tvalid",
    "h_axis_tready",
    "n_sent",
    "n_host",
];

/// What the deparser writes into byte strings.
pub const STORED: [(&str, u32); 5] = [
    ("e_w_en", 1),
    ("e_w_mem", 4),
    ("e_w_addr", ADDRESS_BITS),
    ("e_w_data", 512),
    ("e_w_keep", 64),
];

/// `.port(signal)` for every name, or `port=signal`.
pub fn connect(list: &[&str]) -> String {
    let one = |name: &&str| {
        let (port, signal) = name.split_once('=').unwrap_or((name, name));
        format!("      .{port}({signal})")
    };
    list.iter().map(one).collect::<Vec<_>>().join(",\n")
}

/// Bits of the value registers: an entry of any table, and a line of byte strings.
pub fn control_value(tables: &[TableForm]) -> u32 {
    let lines = if tables.iter().any(|form| form.bytes.is_some()) { 512 } else { 32 };
    tables.iter().map(TableForm::entry_bits).max().unwrap_or(0).max(lines)
}

pub fn control_key(tables: &[TableForm]) -> u32 {
    tables.iter().map(|form| form.key_bits).max().unwrap_or(0).max(32)
}

/// Registers; `held` as nf_control has it.
pub fn control(out: &mut Body, tables: &[TableForm], counters: &[String], held: bool) {
    out.push_str(
        "\n  // ---- registers: the host's commands wait until no event is being handled\n",
    );
    let (key, value) = (control_key(tables), control_value(tables));
    wires(
        out,
        &[
            ("t_req", 1),
            ("t_table", 8),
            ("t_op", 4),
            ("t_key", key),
            ("t_mask", key),
            ("t_value", value),
        ],
    );
    wires(
        out,
        &[
            ("t_detail", 32),
            ("t_index", 32),
            ("t_done", 1),
            ("t_ok", 1),
            ("t_r_key", key),
            ("t_r_mask", key),
        ],
    );
    wires(
        out,
        &[
            ("t_r_value", value),
            ("t_r_detail", 32),
            ("t_r_index", 32),
            ("grant", 1),
            ("on_bytes", 1),
            ("all_ready", 1),
        ],
    );
    wires(out, &[("counters", 32 * counters.len() as u32)]);
    out.push_str(
        "  assign go = !t_req && all_ready;\n  assign grant = t_req && idle;\n  assign on_bytes = t_op[3];\n",
    );
    let ready: Vec<String> = tables.iter().map(|form| format!("{}_ready", form.signals)).collect();
    let all = if ready.is_empty() { "1'b1".to_string() } else { ready.join(" && ") };
    for name in &ready {
        out.logic(1, name);
    }
    let _ = writeln!(out, "  assign all_ready = {all};");
    let axil = [
        "awaddr", "awvalid", "awready", "wdata", "wstrb", "wvalid", "wready", "bresp", "bvalid",
        "bready", "araddr", "arvalid", "arready", "rdata", "rresp", "rvalid", "rready",
    ];
    let mut list: Vec<String> = axil.iter().map(|name| format!("s_axil_{name}")).collect();
    list.push("ready=all_ready".to_string());
    list.push("counters".to_string());
    let table = [
        "t_req",
        "t_table",
        "t_op",
        "t_key",
        "t_mask",
        "t_value",
        "t_detail",
        "t_index",
        "t_done",
        "t_ok",
        "t_r_key",
        "t_r_mask",
        "t_r_value",
        "t_r_detail",
        "t_r_index",
    ];
    list.extend(table.map(String::from));
    let list: Vec<&str> = list.iter().map(String::as_str).collect();
    let _ = writeln!(
        out,
        "  nf_control #(\n      .TABLES({}), .COUNTERS({}), .KEY({key}), .VALUE({value}), .HELD({})\n  ) u_control (\n      .clk(clk),\n      .rst(rst),\n{}\n  );",
        tables.len(),
        counters.len(),
        u32::from(held),
        connect(&list)
    );
}

/// Counters; `more` are signals of others, behind these.
pub fn counting(out: &mut Body, program: &Program, tables: &[TableForm], more: &[String]) {
    out.push_str("\n  // ---- counters\n");
    let reasons = program.reasons.len();
    let mut list = ["n_frames", "n_bad", "n_short", "n_long", "n_full", "n_sent", "n_host"]
        .map(String::from)
        .to_vec();
    for form in tables {
        list.push(format!("{}_n_refused", form.signals));
        list.push(format!("{}_n_evicted", form.signals));
    }
    for at in 0..reasons {
        out.logic(32, &format!("n_drop_{at}"));
        let _ = writeln!(
            out,
            "  always_ff @(posedge clk)\n    if (rst) n_drop_{at} <= '0;\n    else if (rec_valid && rec_kind[3:0] == 4'd14 && rec_data == 64'd{at}) \
             n_drop_{at} <= n_drop_{at} + 1'b1;"
        );
        list.push(format!("n_drop_{at}"));
    }
    list.extend(more.iter().cloned());
    list.reverse();
    let _ = writeln!(out, "  assign counters = {{{}}};", list.join(", "));
}
