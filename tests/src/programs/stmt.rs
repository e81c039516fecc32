//! Statements: variables, assignments, choices, loops, ways out.

use super::types::{self, Ty};
use super::{Gen, Of, Var};

impl Gen {
    /// Declares a variable, with or without a value.
    pub fn local(&mut self) {
        let ty = self.some_type(60);
        let text = format!("v{}", self.made);
        self.made += 1;
        let declared = types::declare(&ty, &text);
        match self.r.percent(50) {
            true => {
                let value = self.value(&ty);
                self.line(&format!("{declared} = {value};"));
            }
            false => self.line(&format!("{declared};")),
        }
        self.scope.push(Var { text, dot: ".", ty, writable: true });
    }

    /// Declares a pointer that is another name for a variable.
    fn pointer(&mut self) {
        // Counters of loops may be of another type than they are said to be here.
        let named =
            |var: &&Var| !matches!(var.ty, Ty::Array(..)) && (var.writable || var.dot == "->");
        let vars: Vec<Var> = self.scope.iter().filter(named).cloned().collect();
        let Some(var) = vars.get(self.r.below(vars.len().max(1))).cloned() else { return };
        let text = format!("p{}", self.made);
        self.made += 1;
        let constant = if var.writable { "" } else { "const " };
        let declared = types::declare(&var.ty, &format!("*{text}"));
        let address = if var.dot == "->" { var.text } else { format!("&{}", var.text) };
        self.line(&format!("{constant}{declared} = {address};"));
        self.scope.push(Var { text, dot: "->", ..var });
    }

    /// Statements until the budget or the mood is over.
    pub fn block(&mut self) {
        let depth = self.scope.len();
        loop {
            self.budget -= 1;
            self.statement();
            if self.budget <= 0 || (self.indent > 1 && self.r.percent(40)) {
                break;
            }
        }
        self.scope.truncate(depth);
    }

    fn statement(&mut self) {
        let deep = self.indent > 3;
        match self.r.below(36) {
            34 if !deep => self.labelled(),
            34 | 35 if !self.labels.is_empty() => self.goto(),
            32 | 33 => self.through_pointer(),
            31 if self.r.percent(50) => self.chosen_pointer(),
            31 => self.pointer(),
            30 if self.loops == 0 => self.bytes(),
            0..4 => self.assign(),
            4 if self.keeps && self.r.percent(30) => self.static_variable(true),
            4 => self.local(),
            5..8 if !deep => self.choice(),
            8 if !deep && self.loops < 2 => self.counted_loop(),
            9 if !deep && self.loops < 2 && self.r.percent(30) => self.scaled_loop(),
            9 if !deep && self.loops < 2 => self.inner_counter(),
            10 if !deep && self.loops < 2 => self.while_loop(),
            11 if !deep => self.switch(),
            12 if self.indent > 1 || self.r.percent(50) => self.early(),
            13 | 14 if !self.helpers.is_empty() => self.call(),
            15 => self.copy(),
            16 => self.element(),
            17..23 if self.of != Of::Values => self.packet_op(),
            _ => self.table_op(),
        }
    }

    pub fn assign(&mut self) {
        let Some((target, int)) = self.writable() else { return };
        let e = self.expr(3);
        match self.r.below(6) {
            0 => {
                let op = self.r.of(&["+=", "-=", "*=", "&=", "|=", "^="]);
                self.line(&format!("{target} {op} {e};"));
            }
            1 if int != "bool" => {
                let op = self.r.of(&["++", "--"]);
                let before = self.r.percent(50);
                self.line(&if before {
                    format!("{op}{target};")
                } else {
                    format!("({target}){op};")
                });
            }
            _ => self.line(&format!("{target} = {e};")),
        }
    }

    fn copy(&mut self) {
        let vars: Vec<Var> = self
            .scope
            .iter()
            .filter(|v| v.writable && matches!(v.ty, Ty::Struct(_)))
            .cloned()
            .collect();
        if vars.is_empty() {
            return;
        }
        let var = self.r.pick(&vars).clone();
        let Ty::Struct(id) = var.ty else { return };
        let value = self.struct_value(id);
        let star = if var.dot == "->" { "*" } else { "" };
        self.line(&format!("{star}{} = {value};", var.text));
    }

    fn element(&mut self) {
        let arrays = self.arrays();
        if arrays.is_empty() {
            return;
        }
        let array = self.r.pick(&arrays).clone();
        let (index, e) = (self.index(array.len), self.expr(2));
        self.line(&format!("PUT({}, {index}, {e});", array.text));
    }

    fn choice(&mut self) {
        let c = match self.r.below(20) {
            0 | 1 => format!("NF_LIKELY(0.9, {})", self.condition()),
            2 | 3 => self.changing_condition(),
            _ => self.condition(),
        };
        self.open(&format!("if ({c})"));
        self.block();
        if self.r.percent(40) {
            self.indent -= 1;
            self.open("} else");
            self.block();
        }
        self.close("");
    }

    /// A loop whose counter nothing else changes.
    fn counted_loop(&mut self) {
        let counter = format!("i{}", self.made);
        self.made += 1;
        let most = 1 + self.r.below(6);
        let int = self.r.of(&["uint32_t", "int", "uint8_t"]);
        let e = self.expr(1);
        let (mut exit, mut moves) = (String::new(), String::new());
        let head = match self.r.below(14) {
            0 => format!("for ({int} {counter} = {most}; {counter} > 0; {counter}--)"),
            1 => format!("for (uint32_t {counter} = 0; {counter} < (({e}) & 7); {counter}++)"),
            2 => format!("for (uint32_t {counter} = ({e}) & 0xfff; {counter}; {counter} >>= 3)"),
            3 => {
                let c = self.condition();
                format!("for ({int} {counter} = 0; {counter} < {most} && ({c}); {counter}++)")
            }
            4 => {
                let op = self.r.of(&["==", ">="]);
                exit = format!("if ({counter} {op} {most})");
                format!("for ({int} {counter} = 0;; {counter}++)")
            }
            5 => {
                self.line(&format!("{int} {counter} = {most};"));
                moves = format!("{counter}--;");
                exit = format!("if (!({counter} > 0))");
                "while (1)".to_string()
            }
            6 => format!("for ({int} {counter} = {most}; {counter}-- > 0;)"),
            7 => format!("for ({int} {counter} = 0; {counter}++ < {most};)"),
            8 => {
                let c = self.condition();
                self.line(&format!("uint32_t {counter} = ({e}) & 7;"));
                format!("while ({counter}-- && ({c}))")
            }
            11 => {
                let c = self.changing_condition();
                format!("for ({int} {counter} = 0; ({c}) && {counter} < {most}; {counter}++)")
            }
            10 => {
                let from = format!("{int} {counter} = 0, n{counter} = {most}");
                format!("for ({from}; {counter} < n{counter}; {counter}++, n{counter}--)")
            }
            9 => {
                self.line(&format!("{int} {counter} = {most};"));
                format!("while (--{counter})")
            }
            _ => {
                format!(
                    "for ({int} {counter} = 0; {counter} < {most}; {counter} += {})",
                    1 + self.r.below(2)
                )
            }
        };
        self.open(&head);
        if !exit.is_empty() {
            self.line(&moves);
            self.line(&exit);
            self.line("    break;");
        }
        self.loops += 1;
        self.scope.push(Var { text: counter, dot: ".", ty: Ty::Int("uint32_t"), writable: false });
        self.block();
        self.way_on();
        self.scope.pop();
        self.loops -= 1;
        self.close("");
    }

    /// A loop whose counter moves inside an expression, or is a member, and one up to where it
    /// came.
    fn inner_counter(&mut self) {
        let (name, most, member) =
            (format!("c{}", self.made), 1 + self.r.below(5), self.r.percent(50));
        self.made += 1;
        let counter = if member { format!("{name}.at") } else { name.clone() };
        self.line(&if member {
            format!("struct s7 {name} = {{}};")
        } else {
            format!("uint8_t {name} = 0;")
        });
        let depth = self.scope.len();
        let var = |text: String, int, writable| Var { text, dot: ".", ty: Ty::Int(int), writable };
        self.scope.push(var(counter.clone(), "uint8_t", false));
        if member {
            self.scope.push(var(format!("{name}.sum"), "uint16_t", true));
        }
        let c = self.condition();
        let also = if self.r.percent(50) { format!(" && ({c})") } else { String::new() };
        self.open(&format!("while ({counter} < {most}{also})"));
        self.loops += 1;
        self.block();
        let (e, by) = (self.expr(1), 1 + self.r.below(2));
        match self.writable() {
            Some((target, _)) if self.r.percent(60) => {
                self.line(&format!("{target} = ({e}) + {counter}++;"))
            }
            _ if self.r.percent(50) => {
                self.line(&format!("if ({e})"));
                self.line(&format!("    {counter} += {by};"));
                self.line("else");
                self.line(&format!("    {counter}++;"));
            }
            _ => self.line(&format!("{counter} += {by};")),
        }
        self.loops -= 1;
        self.close("");
        let trip = format!("i{}", self.made);
        self.made += 1;
        self.open(&format!("for (uint32_t {trip} = 0; {trip} < {counter}; {trip}++)"));
        self.assign();
        self.close("");
        self.scope.truncate(depth);
    }

    /// A loop that says its bound.
    fn while_loop(&mut self) {
        let (c, most) = (self.condition(), 1 + self.r.below(5));
        self.open("");
        self.line(&format!("TRIPS({most})"));
        let ends = self.r.percent(30);
        self.open(&if ends { "do".to_string() } else { format!("while ({c})") });
        self.line(&format!("NF_BOUND({most});"));
        self.line(&format!("TRIP({most})"));
        self.loops += 1;
        self.block();
        self.way_on();
        self.loops -= 1;
        self.close(&if ends { format!(" while ({c});") } else { String::new() });
        self.close("");
    }

    /// `break` or `continue` under a condition.
    fn way_on(&mut self) {
        if self.r.percent(40) {
            let (c, way) = (self.condition(), self.r.of(&["break", "continue", "break"]));
            self.line(&format!("if ({c})"));
            self.line(&format!("    {way};"));
            if self.r.percent(60) {
                self.assign();
            }
        }
    }

    /// A block that `goto` may leave, to its end.
    fn labelled(&mut self) {
        let label = format!("l{}", self.made);
        self.made += 1;
        self.open("");
        self.labels.push(label.clone());
        self.goto();
        self.block();
        self.goto();
        self.assign();
        self.labels.pop();
        self.line(&format!("{label}:;"));
        self.assign();
        self.close("");
    }

    /// A way to one of the labels under a condition.
    fn goto(&mut self) {
        let (c, labels) = (self.condition(), self.labels.clone());
        let label = self.r.pick(&labels).clone();
        self.line(&format!("if ({c})"));
        self.line(&format!("    goto {label};"));
    }

    fn switch(&mut self) {
        let e = self.expr(2);
        self.open(&format!("switch (({e}) & 7)"));
        let mut label = 0;
        for _ in 0..1 + self.r.below(3) {
            match self.r.below(4) {
                0 if label < 6 => {
                    self.line(&format!("case {label} ... {}:", label + 1));
                    label += 2;
                }
                _ => {
                    self.line(&format!("case {label}:"));
                    label += 1;
                }
            }
            self.indent += 1;
            self.open("");
            self.block();
            self.close("");
            if self.r.percent(70) {
                self.line("break;");
            }
            self.indent -= 1;
        }
        if self.r.percent(60) {
            self.line("default:");
            self.indent += 1;
            self.assign();
            self.line("break;");
            self.indent -= 1;
        }
        self.close("");
    }

    /// A way out of the function under a condition.
    fn early(&mut self) {
        let c = self.condition();
        self.open(&format!("if ({c})"));
        self.leave();
        self.close("");
    }

    /// Ends the function: gives its packet away, returns its result.
    pub fn leave(&mut self) {
        if self.of == Of::Packet {
            self.give();
        }
        match self.result {
            Some(_) => {
                let e = self.expr(2);
                self.line(&format!("return {e};"));
            }
            None => self.line("return;"),
        }
    }

    /// Calls a helper.
    fn call(&mut self) {
        let number = self.r.below(self.helpers.len());
        let helper = self.helpers[number].clone();
        if helper.packet && self.of == Of::Values {
            return;
        }
        let mut args: Vec<String> = Vec::new();
        if helper.packet {
            args.push("pkt".into());
        }
        for ty in &helper.values {
            args.push(self.value(ty));
        }
        if let Some((of, writes)) = helper.pointer {
            let fits = |v: &&Var| v.ty == Ty::Struct(of) && (v.writable || !writes);
            let vars: Vec<Var> = self.scope.iter().filter(fits).cloned().collect();
            if vars.is_empty() {
                return;
            }
            let var = self.r.pick(&vars);
            args.push(if var.dot == "->" { var.text.clone() } else { format!("&{}", var.text) });
        }
        let call = format!("h{number}({})", args.join(", "));
        match self.writable() {
            // What a helper writes and what the call's result is assigned to are apart.
            Some(_) if self.r.percent(60) => {
                let text = format!("v{}", self.made);
                self.made += 1;
                self.line(&format!("{} {text} = {call};", helper.result));
                self.scope.push(Var { text, dot: ".", ty: Ty::Int(helper.result), writable: true });
            }
            _ => self.line(&format!("{call};")),
        }
    }
}
