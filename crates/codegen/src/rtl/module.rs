//! The handlers' module as text.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt::Write as _;

use super::expr::{Wire, resolve, used};
use super::state::{Home, StateId, States};

/// A port of the module.
pub struct Port {
    pub name: String,
    pub width: u32,
    pub output: bool,
}

impl Port {
    pub fn input(name: &str, width: u32) -> Port {
        Port { name: name.to_string(), width, output: false }
    }

    pub fn output(name: &str, width: u32) -> Port {
        Port { name: name.to_string(), width, output: true }
    }
}

/// `[31:0]`.
pub fn range(width: u32) -> String {
    format!("[{}:0]", width.max(1) - 1)
}

/// The inside of a module. Its signals stand in front of all that uses them (IEEE 1800-2017, 6.5).
#[derive(Default)]
pub struct Body {
    signals: String,
    text: String,
}

impl Body {
    /// Declares a signal.
    pub fn logic(&mut self, width: u32, name: &str) {
        let _ = writeln!(self.signals, "  logic {} {name};", range(width));
    }

    /// Declares signals of one bit.
    pub fn bits(&mut self, names: &[&str]) {
        for name in names {
            self.logic(1, name);
        }
    }

    pub fn push_str(&mut self, text: &str) {
        self.text.push_str(text);
    }

    /// All of it.
    pub fn finish(self) -> String {
        self.signals + &self.text
    }
}

impl std::fmt::Write for Body {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        self.text.write_str(text)
    }
}

/// Names and the states in which wires of that name are needed later, as registers.
struct Kept<'a> {
    homes: &'a HashMap<String, Home>,
    kept: BTreeSet<String>,
}

impl Kept<'_> {
    /// The text of an expression in a state.
    fn text(&self, value: &str, state: StateId) -> String {
        resolve(value, |name| match self.homes.get(name) {
            Some(Home::State(home)) if *home != state => format!("{name}_q"),
            _ => name.to_string(),
        })
    }

    fn note(&mut self, value: &str, state: StateId) {
        for name in used(value) {
            if matches!(self.homes.get(name), Some(Home::State(home)) if *home != state) {
                self.kept.insert(name.to_string());
            }
        }
    }
}

/// Prints a module of states; `constants` are signals that mean something everywhere.
pub fn print(
    head: &str,
    name: &str,
    ports: &[Port],
    constants: &[Wire],
    states: &States,
    extra: &str,
) -> String {
    let mut kept = Kept { homes: &states.homes, kept: BTreeSet::new() };
    for (id, state) in states.list.iter().enumerate() {
        let wires = state.wires.iter().map(|wire| &wire.value);
        let outputs = state.outputs.iter().chain(&state.writes).map(|(_, value)| value);
        let arms = state
            .arms
            .iter()
            .flat_map(|arm| arm.when.iter().chain(arm.writes.iter().map(|(_, value)| value)));
        for value in wires.chain(outputs).chain(&state.until).chain(arms) {
            kept.note(value, id);
        }
    }
    let mut out = head.to_string();
    let _ = writeln!(
        out,
        "`default_nettype none\n/* verilator lint_off UNUSEDSIGNAL */\n/* verilator lint_off UNSIGNED */\nmodule {name} ("
    );
    let list: Vec<String> = ports
        .iter()
        .map(|port| {
            let kind = if port.output { "output logic" } else { "input  wire " };
            format!("    {kind} {} {}", range(port.width), port.name)
        })
        .collect();
    let _ = writeln!(out, "{}\n);", list.join(",\n"));
    let (head, mut out) = (out, Body::default());
    let bits = super::tables::bits_below(states.list.len() as u32);
    out.logic(bits, "state");
    out.bits(&["advance"]);
    for (name, width) in &states.registers {
        out.logic(*width, name);
    }
    for wire in constants {
        out.logic(wire.width, &wire.name);
        let _ = writeln!(out, "  assign {} = {};", wire.name, wire.value);
    }
    for (id, state) in states.list.iter().enumerate() {
        if !state.wires.is_empty() {
            let _ = writeln!(out, "\n  // ---- state {id}: {}", state.note);
        }
        for wire in &state.wires {
            out.logic(wire.width, &wire.name);
            let _ = writeln!(out, "  assign {} = {};", wire.name, kept.text(&wire.value, id));
            if kept.kept.contains(&wire.name) {
                out.logic(wire.width, &format!("{}_q", wire.name));
            }
        }
    }
    out.push_str(
        "\n  // ---- what each state asks for, and when it ends\n  always_comb begin\n    advance = 1'b1;\n",
    );
    for port in ports
        .iter()
        .filter(|port| port.output && !extra.contains(&format!("assign {} ", port.name)))
    {
        let _ = writeln!(out, "    {} = '0;", port.name);
    }
    outputs_of_divider(&mut out, extra);
    let _ = writeln!(out, "    case (state)");
    for (id, state) in states.list.iter().enumerate() {
        if state.outputs.is_empty() && state.until.is_none() {
            continue;
        }
        let _ = writeln!(out, "      {bits}'d{id}: begin  // {}", state.note);
        for (name, value) in &state.outputs {
            let _ = writeln!(out, "        {name} = {};", kept.text(value, id));
        }
        if let Some(until) = &state.until {
            let _ = writeln!(out, "        advance = {};", kept.text(until, id));
        }
        let _ = writeln!(out, "      end");
    }
    out.push_str(
        "      default: ;\n    endcase\n  end\n\n  // ---- what each state keeps, and which follows\n",
    );
    out.push_str("  always_ff @(posedge clk) begin\n    if (rst) state <= '0;\n    else if (advance)\n      case (state)\n");
    for (id, state) in states.list.iter().enumerate() {
        let _ = writeln!(out, "        {bits}'d{id}: begin");
        let mut writes: BTreeMap<&str, String> = BTreeMap::new();
        for (name, value) in &state.writes {
            writes.insert(name, kept.text(value, id));
        }
        for (name, value) in writes {
            let _ = writeln!(out, "          {name} <= {value};");
        }
        for wire in state.wires.iter().filter(|wire| kept.kept.contains(&wire.name)) {
            let _ = writeln!(out, "          {0}_q <= {0};", wire.name);
        }
        let mut lead = "          ";
        for arm in &state.arms {
            let when = arm.when.as_ref().map(|when| format!("if ({}) ", kept.text(when, id)));
            let _ = writeln!(out, "{lead}{}begin", when.unwrap_or_default());
            for (name, value) in &arm.writes {
                let _ = writeln!(out, "            {name} <= {};", kept.text(value, id));
            }
            let _ = writeln!(out, "            state <= {bits}'d{};", arm.to);
            out.push_str("          end\n");
            lead = "          else ";
        }
        let _ = writeln!(out, "        end");
    }
    out.push_str("        default: state <= '0;\n      endcase\n  end\n");
    head + &out.finish() + extra + END
}

/// The end of every generated file.
pub const END: &str = "endmodule\n/* verilator lint_on UNSIGNED */\n\
    /* verilator lint_on UNUSEDSIGNAL */\n`default_nettype wire\n";

/// Signals to the divider beside the states, if there is one.
fn outputs_of_divider(out: &mut Body, extra: &str) {
    if extra.contains("nf_divider") {
        out.bits(&["div_req", "div_done"]);
        for name in ["dividend", "divisor", "quotient", "remainder"] {
            out.logic(64, &format!("div_{name}"));
        }
        out.push_str("    div_req = 1'b0;\n    div_dividend = '0;\n    div_divisor = '0;\n");
    }
}
