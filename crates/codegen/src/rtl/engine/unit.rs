//! One engine in `nf_top`, and what it has for itself: packet buffer, access to bytes, copies of
//! tables that nothing changes.

use std::fmt::Write as _;

use super::super::expr::Lower;
use super::super::limits::Room;
use super::super::module::{Body, range};
use super::super::tables::{TableForm, bits_below};
use super::super::top::{connect, control_value, wires};
use super::super::{ADDRESS_BITS, SLOT_LINES, SLOTS};
use super::chain;
use super::row::Row;
use super::top::{Around, Asked, of_store, request};

/// What an engine tells in its turn.
pub const TELLS: [(&str, u32); 3] = [("rec_valid", 1), ("rec_kind", 5), ("rec_data", 64)];

/// The engines, each with what it has for itself.
pub fn engines(
    out: &mut Body,
    tables: &[TableForm],
    around: &Around,
    asks: &[Asked],
    stores: &[&TableForm],
) {
    let Around { room, replicas, row } = *around;
    let rows = SLOTS * SLOT_LINES;
    let low = bits_below(rows) - 1;
    let tells = TELLS.iter().map(|tell| tell.1).sum::<u32>();
    out.push_str("\n  // ---- engines\n");
    let _ = writeln!(out, "  localparam integer TELLS = {tells};");
    for asked in asks {
        wires(out, &[(&format!("of_{}", asked.turn), replicas * asked.width())]);
    }
    wires(out, &[("tells_of", replicas * tells), ("bytes_of", replicas * 512)]);
    wires(out, &[("slots_of", replicas * 5), ("reads", replicas), ("writes", replicas)]);
    wires(
        out,
        &[
            ("e_r_en", 1),
            ("e_r_mem", 4),
            ("e_r_addr", ADDRESS_BITS),
            ("e_reading", 1),
            ("e_who", replicas),
        ],
    );
    wires(out, &[("c_take", 1), ("b_done", 1), ("b_value", 512), ("byte_memory", 4)]);
    for number in 1..=stores.len() {
        wires(out, &[(&format!("r_data_{number}"), 512)]);
    }
    let mut memory = "4'd0".to_string();
    for form in stores {
        if let Some(store) = &form.bytes {
            memory = format!("t_table == 8'd{} ? 4'd{} : {memory}", store.table, store.memory);
        }
    }
    let _ = writeln!(out, "  assign byte_memory = {memory};");
    for form in tables {
        answers_of(out, form);
    }
    if row.is_some() {
        chain::writes(out);
    }
    out.push_str(
        "  genvar r;\n  generate\n    for (r = 0; r < ENGINES; r = r + 1) begin : g_engine\n",
    );
    let fields = asks.iter().flat_map(|asked| &asked.fields);
    let mut own: Vec<(String, u32)> =
        fields.map(|(name, width)| (format!("o_{name}"), *width)).collect();
    let only = tables.iter().filter(|form| !form.changed);
    for form in only {
        own.extend(request(form).into_iter().map(|(name, width)| (format!("o_{name}"), width)));
        let answers =
            copied(form).map(|(name, width)| (format!("o_{}_{name}", form.signals), width));
        own.extend(answers);
    }
    let more = [
        ("o_rec_valid", 1),
        ("o_rec_kind", 5),
        ("o_rec_data", 64),
        ("o_a_req", 1),
        ("o_a_op", 2),
        ("o_a_mem", 4),
        ("o_a_line", ADDRESS_BITS),
        ("o_a_from", 16),
        ("o_a_length", 16),
        ("o_a_value", 8 * room.access),
        ("o_a_sum", 32),
        ("o_a_to_mem", 4),
        ("o_a_to_line", ADDRESS_BITS),
        ("o_a_to", 16),
        ("o_a_done", 1),
        ("o_a_r_value", 8 * room.access),
        ("o_a_r_sum", 32),
        ("by_host", 1),
        ("o_a_r_en", 1),
        ("o_a_r_mem", 4),
        ("o_a_r_addr", ADDRESS_BITS),
        ("o_a_r_data", 512),
        ("o_a_w_en", 1),
        ("o_a_w_mem", 4),
        ("o_a_w_addr", ADDRESS_BITS),
        ("o_a_w_data", 512),
        ("o_a_w_keep", 64),
    ];
    own.extend(more.map(|(name, width)| (name.to_string(), width)));
    for (name, width) in &own {
        let _ = writeln!(out, "      logic {} {name};", range(*width));
    }
    handlers(out, tables, row);
    let w_stall = if row.is_some() { "writes[r] && !writer[r]" } else { "1'b0" };
    access(out, (room, w_stall), control_value(tables), stores);
    // What one stage writes, others read later: all buffers take it.
    let (w_any, w) =
        if row.is_some() { ("(writes != '0)", "stages_w") } else { ("writes[r]", "o_a_w") };
    let stage_writes = if row.is_some() { chain::WRITES } else { "" };
    let _ = writeln!(
        out,
        "      assign reads[r] = o_a_r_en && o_a_r_mem == 4'd0;\n      assign writes[r] = o_a_w_en && o_a_w_mem == 4'd0;\n{stage_writes}      \
         nf_line_ram #(\n          .LINES({rows})\n      ) u_packets (\n          .clk(clk),\n          .w_en({w_any} || in_w_en),\n          \
         .w_addr({w_any} ? {w}_addr[{low}:0] : in_w_addr),\n          .w_data({w_any} ? {w}_data : in_w_data),\n          \
         .w_keep({w_any} ? {w}_keep : {{64{{1'b1}}}}),\n          .r_en(reads[r] || (e_r_en && e_r_mem == 4'd0 && e_who[r])),\n          \
         .r_addr(reads[r] ? o_a_r_addr[{low}:0] : e_r_addr[{low}:0]),\n          .r_data(bytes_of[512*r+:512])\n      );"
    );
    for form in tables.iter().filter(|form| !form.changed) {
        copy(out, form);
    }
    for store in stores.iter().filter_map(|form| form.bytes.as_ref()) {
        for (name, own, _) in of_store(store.memory) {
            let here = match own {
                "o_a_r_en" => format!(" && o_a_r_mem == 4'd{}", store.memory),
                "o_a_w_en" => format!(" && o_a_w_mem == 4'd{}", store.memory),
                _ => String::new(),
            };
            let _ = writeln!(out, "      assign o_{name} = {own}{here};");
        }
    }
    out.push_str("      // Zero out of turn.\n");
    for asked in asks {
        let (turn, width) = (&asked.turn, asked.width());
        let _ = writeln!(
            out,
            "      assign of_{turn}[{width}*r+:{width}] = {{{width}{{active_{turn}[r]}}}} & {{{}}};",
            asked.names("o_")
        );
    }
    let tells: Vec<String> = TELLS.iter().map(|tell| format!("o_{}", tell.0)).collect();
    let _ = writeln!(
        out,
        "      assign tells_of[TELLS*r+:TELLS] = {{TELLS{{turn_out[r]}}}} & {{{}}};\n    end\n  endgenerate",
        tells.join(", ")
    );
}

/// The engine itself.
fn handlers(out: &mut Body, tables: &[TableForm], row: Option<&Row>) {
    let mut list: Vec<String> = [
        "turn=turn_out[r]",
        "free_ok=free_ok[r]",
        "c_done=!e_reading",
        "idle=idles[r]",
        "d_valid=start[r]",
        "d_slot",
        "d_length",
        "d_port",
        "d_host",
        "d_tick",
        "d_time",
        "d_seed",
        "frees=gives[r]",
        "frees_now=freed[r]",
        "free_slot=o_c_slot",
        "a_done=o_a_done",
        "a_r_value=o_a_r_value",
        "a_r_sum=o_a_r_sum",
        "c_ready=c_take && turn_out[r]",
    ]
    .map(String::from)
    .to_vec();
    let access =
        ["req", "op", "mem", "line", "from", "length", "value", "sum", "to_mem", "to_line", "to"];
    list.extend(access.map(|name| format!("a_{name}=o_a_{name}")));
    let command = [
        "valid", "host", "kind", "port", "addr", "hlen", "hdr", "mem", "line", "from", "rest",
        "free",
    ];
    list.extend(command.map(|name| format!("c_{name}=o_c_{name}")));
    list.extend(TELLS.map(|(name, _)| format!("{name}=o_{name}")));
    for form in tables {
        let s = &form.signals;
        list.extend(request(form).map(|(name, _)| format!("{name}=o_{name}")));
        let from = if form.changed { s.clone() } else { format!("o_{s}") };
        let gate = if form.changed { format!(" && turn_{s}[r]") } else { String::new() };
        if form.changed {
            list.push(format!("{s}_passed=passed_{s}[r]"));
        }
        list.push(format!("{s}_done={from}_done{gate}"));
        list.extend(
            ["ok", "r_value", "r_index"].map(|field| format!("{s}_{field}={from}_{field}")),
        );
        if form.scanned {
            list.push(format!("{s}_r_key={from}_r_key"));
        }
    }
    if let Some(row) = row {
        list.extend(chain::ports(row));
    }
    let list: Vec<&str> = list.iter().map(String::as_str).collect();
    out.push_str("      assign slots_of[5*r+:5] = {5{freed[r]}} & o_c_slot;\n");
    let Some(row) = row else { return instance(out, "nf_handlers", &list) };
    for number in 0..row.stages.len() {
        let name = &row.names[number];
        let _ = writeln!(out, "      if (r == {number}) begin : g_stage_{name}");
        instance(out, &row.module(number), &list);
        out.push_str("      end\n");
    }
}

fn instance(out: &mut Body, module: &str, ports: &[&str]) {
    let ports = connect(ports);
    let _ = writeln!(
        out,
        "      {module} u_handlers (\n      .clk(clk),\n      .rst(rst),\n{ports}\n      );"
    );
}

/// Bytes of packets and of byte strings.
fn access(out: &mut Body, (room, w_stall): (Room, &str), value: u32, stores: &[&TableForm]) {
    let wide = 8 * room.access;
    let taken = wide.min(value);
    let bytes = Lower::resize(&format!("t_value[{}:0]", taken - 1), taken, wide);
    let pick = |host: &str, own: &str| format!("by_host ? {host} : {own}");
    let line = format!("t_index[{}:0]", ADDRESS_BITS - 1);
    let _ = writeln!(out, "      assign by_host = r == 0 && grant && on_bytes;");
    let mut data = "bytes_of[512*r+:512]".to_string();
    for number in 1..=stores.len() {
        data = format!("o_a_r_mem == 4'd{number} ? r_data_{number} : {data}");
    }
    let _ = writeln!(out, "      assign o_a_r_data = {data};");
    let _ = writeln!(
        out,
        "      nf_access #(\n          .BYTES({}), .AW({ADDRESS_BITS})\n      ) u_access (\n      .clk(clk),\n      .rst(rst),\n{}\n      );",
        room.access,
        connect(&[
            &format!("req={}", pick("1'b1", "o_a_req")),
            &format!("op={}", pick("{1'b0, t_op[0]}", "o_a_op")),
            &format!("mem={}", pick("byte_memory", "o_a_mem")),
            &format!("line={}", pick(&line, "o_a_line")),
            &format!("from={}", pick("16'd0", "o_a_from")),
            &format!("length={}", pick("16'd64", "o_a_length")),
            &format!("w_value={}", pick(&bytes, "o_a_value")),
            "sum=o_a_sum",
            "to_mem=o_a_to_mem",
            "to_line=o_a_to_line",
            "to=o_a_to",
            "done=o_a_done",
            "r_value=o_a_r_value",
            "r_sum=o_a_r_sum",
            "r_en=o_a_r_en",
            "r_mem=o_a_r_mem",
            "r_addr=o_a_r_addr",
            "r_stall=1'b0",
            "r_data=o_a_r_data",
            "w_en=o_a_w_en",
            "w_mem=o_a_w_mem",
            "w_addr=o_a_w_addr",
            "w_data=o_a_w_data",
            "w_keep=o_a_w_keep",
            &format!("w_stall={w_stall}"),
        ])
    );
    out.push_str(
        "      if (r == 0) begin : g_host\n        assign b_done = o_a_done;\n        assign b_value = o_a_r_value[511:0];\n      end\n",
    );
}

/// Signals of a table's answers, for the host and, of a table that is changed, for the engine whose
/// turn it is.
fn answers_of(out: &mut Body, form: &TableForm) {
    let s = &form.signals;
    let name = |field: &str| format!("{s}_{field}");
    for (field, width) in [
        ("host", 1),
        ("done", 1),
        ("ok", 1),
        ("r_value", form.entry_bits()),
        ("r_index", 32),
        ("r_key", form.key_bits),
        ("r_mask", form.key_bits),
        ("r_detail", 32),
        ("n_refused", 32),
        ("n_evicted", 32),
    ] {
        wires(out, &[(&name(field), width)]);
    }
}

/// A table's module between signals with these beginnings: what is asked of it, and what it
/// answers.
pub fn module(form: &TableForm, asked: &str, answers: &str, name: &str) -> String {
    let s = &form.signals;
    let (wide, keys) = (form.entry_bits(), form.key_bits);
    let answered: Vec<String> = [
        "ready",
        "done",
        "ok",
        "r_key",
        "r_mask",
        "r_detail",
        "r_value",
        "r_index",
        "n_refused",
        "n_evicted",
    ]
    .map(|field| format!("{field}={answers}_{field}"))
    .to_vec();
    let answered: Vec<&str> = answered.iter().map(String::as_str).collect();
    format!(
        "  {} #(\n      {}\n  ) {name} (\n      .clk(clk),\n      .rst(rst),\n      .req({s}_host || {asked}_req),\n      \
         .op({s}_host ? t_op : {asked}_op),\n      .key({s}_host ? t_key[{}:0] : {asked}_key),\n      .value({s}_host ? t_value[{}:0] : {asked}_value),\n      \
         .mask(t_mask[{}:0]),\n      .detail(t_detail),\n      .index({s}_host ? t_index : {asked}_index),\n{}\n  );\n",
        form.module(),
        form.parameters(),
        keys - 1,
        wide - 1,
        keys - 1,
        connect(&answered)
    )
}

/// Answers of an engine's copy of a table, with their bits.
fn copied(form: &TableForm) -> [(&'static str, u32); 10] {
    [
        ("ready", 1),
        ("done", 1),
        ("ok", 1),
        ("r_key", form.key_bits),
        ("r_mask", form.key_bits),
        ("r_detail", 32),
        ("r_value", form.entry_bits()),
        ("r_index", 32),
        ("n_refused", 32),
        ("n_evicted", 32),
    ]
}

/// An engine's copy of a table that only the host changes, which writes all copies and reads the
/// first.
fn copy(out: &mut Body, form: &TableForm) {
    let s = &form.signals;
    out.push_str(&module(form, &format!("o_{s}"), &format!("o_{s}"), &format!("u_{s}")));
    let _ = writeln!(out, "      if (r == 0) begin : g_{s}");
    for (field, _) in copied(form) {
        let _ = writeln!(out, "        assign {s}_{field} = o_{s}_{field};");
    }
    out.push_str("      end\n");
}
