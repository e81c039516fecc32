//! Loops whose variables grow or shrink by factors, and binary searches.

use super::types::Ty;
use super::{Gen, Var};

impl Gen {
    /// A loop of either kind.
    pub fn scaled_loop(&mut self) {
        let name = format!("n{}", self.made);
        self.made += 1;
        let e = self.expr(1);
        let depth = self.scope.len();
        match self.r.below(3) {
            0 => self.halving(&name, &e),
            1 => {
                let int = self.r.of(&["uint8_t", "uint16_t", "uint32_t", "int32_t", "uint64_t"]);
                let (begins, most) = (1 + self.r.below(3), 3 + self.r.below(30));
                let step = self.r.of(&["<<= 1", "*= 3", "*= 2"]);
                let head = match self.r.percent(50) {
                    true => format!("{name} {step}"),
                    false => format!("{name} = 2 * {name} + 1"),
                };
                self.open(&format!("for ({int} {name} = {begins}; {name} < {most}; {head})"));
                self.inside_scaled(&name, int);
                self.close("");
            }
            _ => {
                let int = self.r.of(&["uint8_t", "uint16_t", "uint32_t"]);
                let mask = self.r.of(&["7", "31", "100"]);
                self.line(&format!("{int} {name} = ({e}) & {mask};"));
                let test = if self.r.percent(50) { name.clone() } else { format!("{name} > 0") };
                self.open(&format!("while ({test})"));
                self.inside_scaled(&name, int);
                let step = self.r.of(&["- 1) / 2", "- 1) >> 1", "- 1) / 3", "/ 2)", ">> 2)"]);
                self.line(&format!("{name} = ({name} {step};"));
                self.close("");
            }
        }
        self.scope.truncate(depth);
    }

    fn inside_scaled(&mut self, name: &str, int: &'static str) {
        self.scope.push(Var { text: name.into(), dot: ".", ty: Ty::Int(int), writable: false });
        self.loops += 1;
        for _ in 0..1 + self.r.below(2) {
            self.assign();
        }
        self.loops -= 1;
    }

    /// A search for a number between others that grow, and where it ended.
    fn halving(&mut self, name: &str, e: &str) {
        let (lo, hi, mid) = (format!("{name}lo"), format!("{name}hi"), format!("{name}mid"));
        let (len, by) = (1 + self.r.below(12), 1 + self.r.below(40));
        let int = self.r.of(&["int", "int32_t", "uint32_t", "uint16_t"]);
        let shape = if int.starts_with('u') { 2 * self.r.below(2) } else { self.r.below(3) };
        let middle = match self.r.percent(50) {
            true => format!("({lo} + {hi}) / 2"),
            false => format!("{lo} + ({hi} - {lo}) / 2"),
        };
        self.line(&format!("{int} {lo} = 0, {hi} = {len};"));
        let (test, above, below) = match shape {
            0 => (format!("{lo} < {hi}"), format!("{mid} + 1"), mid.clone()),
            1 => (format!("{lo} <= {hi}"), format!("{mid} + 1"), format!("{mid} - 1")),
            _ => (format!("{hi} - {lo} > 1"), mid.clone(), mid.clone()),
        };
        self.open(&format!("while ({test})"));
        self.line(&format!("{int} {mid} = {middle};"));
        if self.r.percent(30) {
            self.line(&format!("if ({mid} * {by} == (uint8_t)({e}))"));
            self.line("    break;");
        }
        self.line(&format!("if ({mid} * {by} < (uint8_t)({e}))"));
        self.line(&format!("    {lo} = {above};"));
        self.line("else");
        self.line(&format!("    {hi} = {below};"));
        self.close("");
        if let Some((target, _)) = self.writable() {
            self.line(&format!("{target} ^= {lo} * 16 + {hi};"));
        }
    }
}
