//! Tables around a pipe.

use std::fmt::Write as _;

use nicforge_ir::TableKind;

use super::super::expr::Lower;
use super::super::tables::TableForm;
use super::super::top::{connect, control_key, control_value, wires};
use super::schedule::Pipe;

/// The tables' modules. One that nothing changes is there once for every lookup; the host writes all of them and reads the first.
pub fn print(out: &mut String, pipe: &Pipe, tables: &[TableForm]) {
    out.push_str("\n  // ---- tables\n");
    let (key, value) = (control_key(tables), control_value(tables));
    let (mut done, mut ok) = ("1'b0".to_string(), "1'b0".to_string());
    let mut results = ["'0", "'0", "32'd0", "32'd0"].map(String::from);
    for (number, form) in tables.iter().enumerate() {
        let s = &form.signals;
        wires(
            out,
            &[(&format!("{s}_host"), 1), (&format!("{s}_n_refused"), 32), (&format!("{s}_n_evicted"), 32)],
        );
        let _ = writeln!(out, "  assign {s}_host = grant && t_table == 8'd{number};");
        let mut copies: Vec<Option<usize>> =
            pipe.ports.iter().filter(|port| port.table == number).map(|port| port.lookup).collect();
        let unused = copies.is_empty();
        if unused {
            copies.push(None);
        }
        let written = copies == [None];
        if written && !unused {
            let _ = writeln!(
                out,
                "  always_ff @(posedge clk)\n    if (rst) {s}_n_refused <= '0;\n    else if ({s}_refused) {s}_n_refused <= {s}_n_refused + 1'b1;"
            );
        } else {
            let _ = writeln!(out, "  assign {s}_n_refused = '0;");
        }
        for (copy, lookup) in copies.iter().enumerate() {
            let end = lookup.map_or(String::new(), |number| number.to_string());
            let first = copy == 0;
            let own = |field: &str| format!("{s}_{field}_{copy}");
            wires(out, &[(&own("h_done"), 1), (&own("h_ok"), 1), (&own("h_key"), form.key_bits)]);
            wires(out, &[(&own("h_value"), form.value_bits), (&own("h_index"), 32), (&own("ready"), 1)]);
            wires(
                out,
                &[
                    (&own("room"), 1),
                    (&own("evicted"), 32),
                    (&own("hit"), 1),
                    (&own("value"), form.value_bits),
                    (&own("detail"), 32),
                ],
            );
            let (k_valid, k_key) = match unused {
                true => ("1'b0".to_string(), "'0".to_string()),
                false => (format!("{s}_k_valid{end}"), format!("{s}_k_key{end}")),
            };
            let (write, delete, new) = match written && !unused {
                true => (format!("{s}_w_write"), format!("{s}_w_delete"), format!("{s}_w_value")),
                false => ("1'b0".to_string(), "1'b0".to_string(), "'0".to_string()),
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
            if form.kind == TableKind::Lpm {
                list.extend(["h_detail=t_detail".to_string(), format!("h_r_detail={}", own("detail"))]);
                let _ = writeln!(out, "  assign {} = 1'b0;\n  assign {} = '0;", own("room"), own("evicted"));
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
            let list: Vec<&str> = list.iter().map(String::as_str).collect();
            let _ = writeln!(
                out,
                "  {} #(\n      {}\n  ) u_{s}_{copy} (\n      .clk(clk),\n      .rst(rst),\n{}\n  );",
                form.pipe_module(),
                form.pipe_parameters(),
                connect(&list)
            );
            if !unused {
                let _ = writeln!(
                    out,
                    "  assign {s}_hit{end} = {};\n  assign {s}_value{end} = {};",
                    own("hit"),
                    own("value")
                );
            }
            if written && !unused {
                let _ = writeln!(out, "  assign {s}_room = {};", own("room"));
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
                ];
                for (result, part) in results.iter_mut().zip(parts) {
                    *result = format!("{s}_host ? {part} : {result}");
                }
            }
        }
    }
    let _ = writeln!(out, "  assign t_done = grant && ({done});\n  assign t_ok = {ok};");
    for (name, text) in ["t_r_key", "t_r_value", "t_r_index", "t_r_detail"].iter().zip(results) {
        let _ = writeln!(out, "  assign {name} = {text};");
    }
    out.push_str("  assign t_r_mask = '0;\n");
}
