//! Tables around a pipe.

use std::fmt::Write as _;

use nicforge_ir::TableKind;

use super::super::expr::Lower;
use super::super::module::Body;
use super::super::tables::{TableForm, bits_below};
use super::super::top::{connect, control_key, control_value, wires};
use super::leave::Commit;
use super::ports::Port;
use super::schedule::Pipe;

/// The tables' modules. One that nothing changes is there once for every lookup; the host writes
/// all of them and reads the first.
pub fn print(out: &mut Body, pipe: &Pipe, tables: &[TableForm]) {
    out.push_str("\n  // ---- tables\n");
    let strings: Vec<&TableForm> = tables.iter().filter(|form| form.bytes.is_some()).collect();
    let on_entries = if strings.is_empty() { "" } else { " && !on_bytes" };
    // Hash tables of a pipe may refuse before they are full: simulators repeat it.
    let hashes = |commit: &&Commit| tables[commit.table].kind == TableKind::Hash;
    let refuses: Vec<&Commit> = pipe.commits.iter().filter(hashes).collect();
    if !refuses.is_empty() {
        out.push_str(
            "`ifdef NF_DRIVER\n  import \"DPI-C\" function void nf_refused(input int table_number, input int inserted);\n",
        );
        for commit in refuses {
            let (table, signals) = (commit.table, &tables[commit.table].signals);
            // In front of the refusal.
            let inserted = match commit.inserted {
                Some(_) => format!("32'({signals}_inserted)"),
                None => "0".to_string(),
            };
            let _ = writeln!(
                out,
                "  always_ff @(posedge clk) if ({signals}_refused && !rst) nf_refused({table}, {inserted});"
            );
        }
        out.push_str("`endif\n");
    }
    let (key, value) = (control_key(tables), control_value(tables));
    let (mut done, mut ok) = ("1'b0".to_string(), "1'b0".to_string());
    let mut results = ["'0", "'0", "32'd0", "32'd0", "'0"].map(String::from);
    for (number, form) in tables.iter().enumerate() {
        let s = &form.signals;
        wires(
            out,
            &[
                (&format!("{s}_host"), 1),
                (&format!("{s}_n_refused"), 32),
                (&format!("{s}_n_evicted"), 32),
            ],
        );
        let _ = writeln!(out, "  assign {s}_host = grant{on_entries} && t_table == 8'd{number};");
        let commit = pipe.commits.iter().find(|commit| commit.table == number);
        let ports: Vec<&Port> = pipe.ports.iter().filter(|port| port.table == number).collect();
        let copies: Vec<&[&Port]> = match commit {
            Some(_) => vec![&ports[..]],
            None if ports.is_empty() => vec![&[]],
            None => ports.chunks(1).collect(),
        };
        if let Some(commit) = commit {
            let more = match commit.refusals {
                Some(_) => format!("32'({s}_refusals)"),
                None => "1'b1".to_string(),
            };
            let _ = writeln!(
                out,
                "  always_ff @(posedge clk)\n    if (rst) {s}_n_refused <= '0;\n    else if ({s}_refused) {s}_n_refused <= {s}_n_refused + {more};"
            );
        } else {
            let _ = writeln!(out, "  assign {s}_n_refused = '0;");
        }
        for (copy, ports) in copies.into_iter().enumerate() {
            let first = copy == 0;
            // Ports that take turns are one port of the module.
            let in_turn = commit.is_some_and(|commit| commit.pace > 0);
            let count = if in_turn { 1 } else { ports.len().max(1) as u32 };
            let own = |field: &str| format!("{s}_{field}_{copy}");
            for (field, width) in [
                ("h_done", 1),
                ("h_ok", 1),
                ("h_key", form.key_bits),
                ("h_mask", form.key_bits),
                ("h_value", form.value_bits),
                ("h_index", 32),
                ("ready", 1),
                ("room", count),
                ("evicted", 32),
                ("hit", count),
                ("value", count * form.value_bits),
                ("detail", 32),
                ("place", 32 * count),
            ] {
                wires(out, &[(&own(field), width)]);
            }
            // Ports' signals side by side, the first one lowest.
            let all = |field: &str, none: &str| match ports {
                [] => none.to_string(),
                [one] => format!("{s}_{field}{}", one.end),
                _ => {
                    let list: Vec<String> =
                        ports.iter().rev().map(|port| format!("{s}_{field}{}", port.end)).collect();
                    format!("{{{}}}", list.join(", "))
                }
            };
            let k_valid =
                ports.first().map_or("1'b0".to_string(), |port| format!("{s}_k_valid{}", port.end));
            let k_key = all("k_key", "'0");
            let changes = |field: &str, none: &str| match commit {
                Some(_) => all(field, none),
                None => none.to_string(),
            };
            let (write, delete) = (changes("w_write", "'0"), changes("w_delete", "'0"));
            let turns = |field: &str, when: &[&str]| turns(s, ports, field, when);
            let (k_valid, k_key, write, delete) = match in_turn {
                false => (k_valid, k_key, write, delete),
                true => (
                    turns("k_valid", &["k_valid"]),
                    turns("k_key", &["k_valid"]),
                    turns("w_write", &["w_write"]),
                    turns("w_delete", &["w_delete"]),
                ),
            };
            let new = match commit {
                Some(_) if in_turn => turns("w_value", &["w_write", "w_delete"]),
                Some(commit) if commit.values.len() > 1 => all("w_value", "'0"),
                Some(_) => format!("{s}_w_value"),
                None => "'0".to_string(),
            };
            let mut list = vec![
                format!("ready={}", own("ready")),
                format!("k_valid={k_valid}"),
                format!("k_key={k_key}"),
                format!("c_hit={}", own("hit")),
                format!("c_value={}", own("value")),
                format!("h_req={s}_host"),
                "h_op=t_op".to_string(),
                format!("h_key=t_key[{}:0]", form.key_bits - 1),
                format!("h_value=t_value[{}:0]", form.value_bits - 1),
                "h_index=t_index".to_string(),
                format!("h_done={}", own("h_done")),
                format!("h_ok={}", own("h_ok")),
                format!("h_r_key={}", own("h_key")),
                format!("h_r_value={}", own("h_value")),
                format!("h_r_index={}", own("h_index")),
            ];
            if form.kind == TableKind::Ternary {
                let high = form.key_bits - 1;
                list.extend([
                    format!("h_mask=t_mask[{high}:0]"),
                    format!("h_r_mask={}", own("h_mask")),
                ]);
            } else {
                let _ = writeln!(out, "  assign {} = '0;", own("h_mask"));
            }
            if matches!(form.kind, TableKind::Lpm | TableKind::Ternary) {
                list.extend([
                    "h_detail=t_detail".to_string(),
                    format!("h_r_detail={}", own("detail")),
                ]);
                let _ = writeln!(
                    out,
                    "  assign {} = 1'b0;\n  assign {} = '0;",
                    own("room"),
                    own("evicted")
                );
            } else {
                list.extend([
                    format!("c_room={}", own("room")),
                    format!("w_write={write}"),
                    format!("w_delete={delete}"),
                    format!("w_value={new}"),
                    format!("n_evicted={}", own("evicted")),
                ]);
                let _ = writeln!(out, "  assign {} = '0;", own("detail"));
            }
            if form.pipe_hashes() && !commit.is_some_and(|commit| commit.at_once) {
                let used = match commit.map_or(0, |commit| commit.used.len()) {
                    0 => "1'b0".to_string(),
                    1 => format!("{s}_w_used"),
                    _ => turns("w_used", &["w_used"]),
                };
                list.push(format!("w_used={used}"));
            }
            if form.pipe_hashes() {
                list.push(format!("c_place={}", own("place")));
            }
            let changing = commit.filter(|commit| commit.at_once).map(|commit| commit.changing());
            let mut valued: Vec<bool> =
                ports.iter().take(count as usize).map(|port| port.valued).collect();
            // The host reads values by the first.
            match valued.first_mut() {
                Some(first) => *first = true,
                None => valued.push(true),
            }
            let list: Vec<&str> = list.iter().map(String::as_str).collect();
            let _ = writeln!(
                out,
                "  {} #(\n      {}\n  ) u_{s}_{copy} (\n      .clk(clk),\n      .rst(rst),\n{}\n  );",
                form.pipe_module(count as usize, changing.is_some()),
                form.pipe_parameters(
                    number,
                    &valued,
                    &ports.iter().take(count as usize).map(|port| port.from).collect::<Vec<_>>(),
                    pipe.apart(number),
                    changing.as_deref(),
                ),
                connect(&list)
            );
            for (at, port) in ports.iter().enumerate() {
                let (at, end) = (if in_turn { 0 } else { at }, &port.end);
                let width = form.value_bits as usize;
                let _ = writeln!(out, "  assign {s}_hit{end} = {}[{at}];", own("hit"));
                let (top, low) = ((at + 1) * width - 1, at * width);
                let _ = writeln!(out, "  assign {s}_value{end} = {}[{top}:{low}];", own("value"));
                if commit.is_some() {
                    let _ = writeln!(out, "  assign {s}_room{end} = {}[{at}];", own("room"));
                }
                if form.gives_places() {
                    let (top, low) = (32 * at + 31, 32 * at);
                    let _ =
                        writeln!(out, "  assign {s}_place{end} = {}[{top}:{low}];", own("place"));
                }
            }
            if first {
                let _ = writeln!(
                    out,
                    "  assign {s}_ready = {};\n  assign {s}_n_evicted = {};",
                    own("ready"),
                    own("evicted")
                );
                done = format!("({s}_host && {}) || {done}", own("h_done"));
                ok = format!("{s}_host ? {} : {ok}", own("h_ok"));
                let parts = [
                    Lower::resize(&own("h_key"), form.key_bits, key),
                    Lower::resize(&own("h_value"), form.value_bits, value),
                    own("h_index"),
                    own("detail"),
                    Lower::resize(&own("h_mask"), form.key_bits, key),
                ];
                for (result, part) in results.iter_mut().zip(parts) {
                    // They stay behind a command, and nobody looks at them without a table.
                    *result = match number {
                        0 => part,
                        _ => format!("t_table == 8'd{number} ? {part} : {result}"),
                    };
                }
            }
        }
    }
    for (form, store) in strings.iter().filter_map(|form| Some((form, form.bytes.as_ref()?))) {
        let (number, memory) = (store.table, store.memory);
        let bytes = format!("on_bytes && t_table == 8'd{number}");
        done = format!("({bytes} && b{memory}_h_done) || {done}");
        ok = format!("on_bytes ? 1'b1 : {ok}");
        let line = Lower::resize(&format!("b{memory}_h_value"), 512, value);
        results[1] = format!("{bytes} ? {line} : {}", results[1]);
        byte_store(out, form, memory, &bytes);
    }
    let _ = writeln!(out, "  assign t_done = grant && ({done});\n  assign t_ok = {ok};");
    for (name, text) in
        ["t_r_key", "t_r_value", "t_r_index", "t_r_detail", "t_r_mask"].iter().zip(results)
    {
        let _ = writeln!(out, "  assign {name} = {text};");
    }
}

/// Turns, as whichever port says by one of the signals `when`.
fn turns(signals: &str, ports: &[&Port], field: &str, when: &[&str]) -> String {
    let of = |field: &str, port: &Port| format!("{signals}_{field}{}", port.end);
    if when == [field] {
        return ports.iter().map(|port| of(field, port)).collect::<Vec<_>>().join(" || ");
    }
    let (first, others) = ports.split_first().expect("a table that is changed has ports");
    let one = |text: String, port: &&Port| {
        let when: Vec<String> = when.iter().map(|field| of(field, port)).collect();
        format!("({}) ? {} : {text}", when.join(" || "), of(field, port))
    };
    others.iter().fold(of(field, first), one)
}

/// The memory of a table's byte strings, between deparser and host.
fn byte_store(out: &mut Body, form: &TableForm, memory: u64, asked: &str) {
    let lines = form.pipe_lines();
    let high = bits_below(lines) - 1;
    wires(out, &[(&format!("b{memory}_h_done"), 1), (&format!("b{memory}_h_value"), 512)]);
    // For copies.
    wires(
        out,
        &[
            (&format!("b{memory}_w_en"), 1),
            (&format!("b{memory}_w_addr"), high + 1),
            (&format!("b{memory}_w_data"), 512),
            (&format!("b{memory}_w_keep"), 64),
        ],
    );
    let _ = writeln!(
        out,
        "  nf_byte_store #(\n      .LINES({lines})\n  ) u_bytes_{memory} (\n      .clk(clk),\n      .rst(rst),\n{}\n  );",
        connect(&[
            "busy=e_reading",
            &format!("r_en=e_r_en && e_r_mem == 4'd{memory}"),
            &format!("r_addr=e_r_addr[{high}:0]"),
            &format!("r_data=b{memory}_data"),
            &format!("w_en=e_w_en && e_w_mem == 4'd{memory}"),
            &format!("w_addr=e_w_addr[{high}:0]"),
            "w_data=e_w_data",
            "w_keep=e_w_keep",
            &format!("c_en=b{memory}_w_en"),
            &format!("c_addr=b{memory}_w_addr"),
            &format!("c_data=b{memory}_w_data"),
            &format!("c_keep=b{memory}_w_keep"),
            &format!("h_req=grant && {asked}"),
            "h_write=t_op[0]",
            &format!("h_index=t_index[{high}:0]"),
            "h_value=t_value[511:0]",
            &format!("h_done=b{memory}_h_done"),
            &format!("h_r_value=b{memory}_h_value"),
        ])
    );
}
