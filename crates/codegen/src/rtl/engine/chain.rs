//! What `nf_top` has between stages: queues, whose turn it is to send, which buffer is written, and
//! counts.
//!
//! Tables that change belong to one stage, which has them all the time. What leaves is ordered by
//! outside event and stage: a pointer goes from stage to stage, once round for each outside event,
//! and moves on when the stage is done with that event. Stages may be done with later events before
//! the pointer comes (`owed`), as long as they send nothing.

use std::fmt::Write as _;

use nicforge_ir::{HandlerId, Program};

use super::super::SLOTS;
use super::super::module::Body;
use super::super::tables::{TableForm, bits_below};
use super::super::top::{connect, wires};
use super::row::Row;

/// Messages in front of a stage whose handlers do not say how many (`NF_QUEUE`).
const DEPTH: u32 = 16;
/// Most messages in front of a stage: a queue is in distributed memory.
const MOST_DEPTH: u32 = 256;
/// Bits of counts of outside events that are under way.
const COUNT: u32 = bits_of(SLOTS) + 1;

const fn bits_of(number: u32) -> u32 {
    32 - number.leading_zeros()
}

/// In each engine: what it wants to write, if it is the one.
pub const WRITES: &str = "      assign w_addrs[20*r+:20] = {20{writer[r]}} & o_a_w_addr;\n      assign w_datas[512*r+:512] = {512{writer[r]}} & o_a_w_data;\n      \
    assign w_keeps[64*r+:64] = {64{writer[r]}} & o_a_w_keep;\n";

/// Writes of the one stage that writes into packets, to all buffers.
pub fn writes(out: &mut Body) {
    out.push_str(
        "  logic [ENGINES-1:0] writer;\n  logic [20*ENGINES-1:0] w_addrs;\n  logic [512*ENGINES-1:0] w_datas;\n  logic [64*ENGINES-1:0] w_keeps;\n\
         \x20 logic [19:0] stages_w_addr;\n  logic [511:0] stages_w_data;\n  logic [63:0] stages_w_keep;\n  assign writer = writes & (~writes + 1'b1);\n\
         \x20 integer w;\n  always_comb begin\n    {stages_w_addr, stages_w_data, stages_w_keep} = '0;\n    for (w = 0; w < ENGINES; w = w + 1) begin\n      \
         stages_w_addr = stages_w_addr | w_addrs[20*w+:20];\n      stages_w_data = stages_w_data | w_datas[512*w+:512];\n      \
         stages_w_keep = stages_w_keep | w_keeps[64*w+:64];\n    end\n  end\n",
    );
}

/// Ports of stage `r` beside those of engines.
pub fn ports(row: &Row) -> Vec<String> {
    let wide = row.width();
    let mut list: Vec<String> = [
        "i_valid", "i_take", "q_valid", "q_take", "n_valid", "n_ready", "p_valid", "p_ready",
        "ended",
    ]
    .map(|name| format!("{name}={name}[r]"))
    .to_vec();
    list.extend(
        ["i_data", "q_data", "n_data", "p_data"]
            .map(|name| format!("{name}={name}[{wide}*r+:{wide}]")),
    );
    list.push("ends=ending[r]".to_string());
    list
}

/// The queues in front of stages, who sends, who has which table.
pub fn turns(out: &mut Body, program: &Program, tables: &[TableForm], row: &Row) {
    let count = row.stages.len() as u32;
    let _ = write!(
        out,
        "\n  // ---- stages: {}\n  localparam integer ENGINES = {count};\n",
        row.names.join(", then ")
    );
    wires(out, &["idles", "start", "gives", "free_ok", "freed"].map(|name| (name, count)));
    wires(
        out,
        &[
            "i_valid", "i_take", "q_valid", "q_take", "n_valid", "n_ready", "p_valid", "p_ready",
            "ended", "ending",
        ]
        .map(|name| (name, count)),
    );
    wires(out, &["i_data", "q_data", "n_data", "p_data"].map(|name| (name, count * row.width())));
    let _ = write!(
        out,
        "  assign start = {{{{{}{{1'b0}}}}, d_valid && go && idles[0]}};\n  assign d_take = start != '0;\n  assign idle = &idles && i_valid == '0;\n\
         \x20 // Slots come back from the deparser, or from one stage.\n  assign free_ok = e_back ? '0 : gives & (~gives + 1'b1);\n  \
         assign frees_now = freed != '0;\n",
        count - 1
    );
    queues(out, program, row);
    sending(out, count);
    statistics(out, row);
    for (number, form) in tables.iter().enumerate().filter(|(_, form)| form.changed) {
        let s = &form.signals;
        let owner = owner(program, number, row);
        wires(
            out,
            &[
                (&format!("passed_{s}"), count),
                (&format!("turn_{s}"), count),
                (&format!("active_{s}"), count),
            ],
        );
        let _ = writeln!(
            out,
            "  assign turn_{s} = {count}'d{};  // {}\n  assign active_{s} = grant ? {count}'d1 : turn_{s};",
            1u64 << owner,
            row.names[owner]
        );
    }
}

/// The stage that uses a table; the first if none does.
fn owner(program: &Program, table: usize, row: &Row) -> usize {
    let uses = |handler: &HandlerId| {
        let body = &program.handlers[*handler].body;
        let mut found = false;
        body.for_each_inst(body.entry(), &mut |inst| {
            let effects = body.insts[inst].op.effects();
            let used = effects.table_read.or(effects.table_write);
            found |= used.is_some_and(|used| used.as_u32() as usize == table);
        });
        found
    };
    row.stages.iter().position(|stage| stage.iter().any(uses)).unwrap_or(0)
}

/// Messages in front of a stage: what its queues may hold together; a power of two.
fn depth(program: &Program, stage: &[HandlerId]) -> u32 {
    let rooms: Option<Vec<u32>> = stage
        .iter()
        .map(|handler| program.handlers[*handler].room.map(|room| room.entries))
        .collect();
    let Some(rooms) = rooms else { return DEPTH };
    let entries = rooms.into_iter().fold(0, u32::saturating_add).min(MOST_DEPTH);
    entries.next_power_of_two().clamp(2, MOST_DEPTH)
}

fn queues(out: &mut Body, program: &Program, row: &Row) {
    let wide = row.width();
    let mut queue = |name: &str, depth: u32, ports: &[String]| {
        let ports: Vec<&str> = ports.iter().map(String::as_str).collect();
        let _ = writeln!(
            out,
            "  nf_queue #(\n      .WIDTH({wide}), .DEPTH({depth})\n  ) u_{name} (\n      .clk(clk),\n      .rst(rst),\n{}\n  );",
            connect(&ports)
        );
    };
    for (number, name) in row.names.iter().enumerate() {
        let bits = |signal: &str, at: usize| format!("{signal}[{wide}*{at}+:{wide}]");
        if number > 0 {
            let before = number - 1;
            queue(
                &format!("to_{name}"),
                depth(program, &row.stages[number]),
                &[
                    format!("put=n_valid[{before}]"),
                    format!("put_data={}", bits("n_data", before)),
                    format!("room=n_ready[{before}]"),
                    format!("valid=i_valid[{number}]"),
                    format!("data={}", bits("i_data", number)),
                    format!("take=i_take[{number}]"),
                ],
            );
        }
        if row.waiting[number] > 0 {
            queue(
                &format!("own_{name}"),
                row.waiting[number].next_power_of_two().max(2),
                &[
                    format!("put=p_valid[{number}]"),
                    format!("put_data={}", bits("p_data", number)),
                    format!("room=p_ready[{number}]"),
                    format!("valid=q_valid[{number}]"),
                    format!("data={}", bits("q_data", number)),
                    format!("take=q_take[{number}]"),
                ],
            );
        }
    }
    let last = row.stages.len() - 1;
    let _ = writeln!(
        out,
        "  assign i_valid[0] = 1'b0;\n  assign i_data[{}:0] = '0;\n  assign n_ready[{last}] = 1'b1;",
        wide - 1
    );
    for number in (0..=last).filter(|number| row.waiting[*number] == 0) {
        let _ = writeln!(
            out,
            "  assign q_valid[{number}] = 1'b0;\n  assign q_data[{wide}*{number}+:{wide}] = '0;\n  assign p_ready[{number}] = 1'b0;"
        );
    }
}

/// The pointer to the stage that may send.
fn sending(out: &mut Body, count: u32) {
    wires(
        out,
        &[
            ("out_at", count),
            ("owing", count),
            ("turn_out", count),
            ("active_out", count),
            ("all_out", 1),
            ("owed", COUNT * count),
        ],
    );
    let last = count - 1;
    let _ = write!(
        out,
        "  // Stages send in the order of outside events; owed: events that a stage is done with, before its turn came.\n\
         \x20 genvar s;\n  generate\n    for (s = 0; s < ENGINES; s = s + 1) begin : g_owed\n      assign owing[s] = owed[{COUNT}*s+:{COUNT}] != '0;\n      \
         always_ff @(posedge clk)\n        if (rst) owed[{COUNT}*s+:{COUNT}] <= '0;\n        \
         else owed[{COUNT}*s+:{COUNT}] <= owed[{COUNT}*s+:{COUNT}] + {COUNT}'(ended[s]) - {COUNT}'(out_at[s] && owing[s]);\n    end\n  endgenerate\n  \
         assign turn_out = out_at & ~owing;\n  assign active_out = grant ? {count}'d1 : turn_out;\n  assign all_out = out_at[{last}] && owing[{last}];\n  \
         always_ff @(posedge clk)\n    if (rst) out_at <= {count}'d1;\n    else if ((out_at & owing) != '0) out_at <= {};\n",
        if last == 0 {
            "out_at".to_string()
        } else {
            format!("{{out_at[{}:0], out_at[{last}]}}", last - 1)
        }
    );
}

fn statistics(out: &mut Body, row: &Row) {
    let count = row.stages.len() as u32;
    let bits = bits_below(SLOTS + 1) + 1;
    for what in ["events", "cycles", "most", "next_full"] {
        wires(out, &[(&format!("n_{what}"), 32 * count)]);
    }
    wires(out, &[("came", count), ("there", bits * count)]);
    let _ = write!(
        out,
        "  // Outside events at each stage, from when the stage before is done with them.\n  assign came = {{{}start[0]}};\n  \
         generate\n    for (s = 0; s < ENGINES; s = s + 1) begin : g_counts\n      always_ff @(posedge clk)\n        if (rst) begin\n          \
         there[{bits}*s+:{bits}] <= '0;\n          n_events[32*s+:32] <= '0;\n          n_cycles[32*s+:32] <= '0;\n          n_most[32*s+:32] <= '0;\n          \
         n_next_full[32*s+:32] <= '0;\n        end else begin\n          \
         there[{bits}*s+:{bits}] <= there[{bits}*s+:{bits}] + {bits}'(came[s]) - {bits}'(ended[s]);\n          \
         n_events[32*s+:32] <= n_events[32*s+:32] + 32'(ended[s]);\n          n_cycles[32*s+:32] <= n_cycles[32*s+:32] + 32'(there[{bits}*s+:{bits}]);\n          \
         if (32'(there[{bits}*s+:{bits}]) > n_most[32*s+:32]) n_most[32*s+:32] <= 32'(there[{bits}*s+:{bits}]);\n          \
         n_next_full[32*s+:32] <= n_next_full[32*s+:32] + 32'(n_valid[s] && !n_ready[s]);\n        end\n    end\n  endgenerate\n",
        if count > 1 { format!("ended[{}:0], ", count - 2) } else { String::new() }
    );
}

/// Signals of the stages' counters, in the order of their names.
pub fn counted(row: &Row) -> Vec<String> {
    let of = |number: usize| super::row::COUNTERS.map(|what| format!("n_{what}[32*{number}+:32]"));
    (0..row.stages.len()).flat_map(of).collect()
}
