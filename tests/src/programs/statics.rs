//! Variables outside functions, and static ones inside.

use super::types::{self, Ty};
use super::{Gen, Var};

/// Names that programs of one object have of their own: g0 to g7.
const MOST: usize = 8;

impl Gen {
    pub fn declare_statics(&mut self) {
        if !self.keeps {
            return;
        }
        for _ in 0..1 + self.r.below(4) {
            self.static_variable(false);
        }
        if self.r.percent(50) {
            self.long_arrays();
        }
        self.statics = self.scope.clone();
        self.line("");
    }

    /// Declares a variable that outlives events; `inside` a function others do not see it.
    pub fn static_variable(&mut self, inside: bool) {
        let number = self.kept;
        if number == MOST {
            return;
        }
        self.kept += 1;
        let element = self.some_type(35);
        let len = 1 + self.r.below(9) as u32;
        let (ty, count) = match self.r.percent(40) {
            true => (Ty::Array(Box::new(element.clone()), len), len),
            false => (element.clone(), 1),
        };
        let begins = match element {
            Ty::Int(int) if self.r.percent(50) => {
                let values: Vec<String> =
                    (0..count).map(|_| format!("({int}){}", self.constant())).collect();
                match ty {
                    Ty::Array(..) => format!(" = {{{}}}", values.join(", ")),
                    _ => format!(" = {}", values[0]),
                }
            }
            Ty::Struct(id)
                if matches!(self.structs[id].members[0].ty, Ty::Int(_)) && self.r.percent(50) =>
            {
                let first = format!("{{{}}}", self.constant());
                match ty {
                    Ty::Array(..) => format!(" = {{{first}}}"),
                    _ => format!(" = {first}"),
                }
            }
            _ if !matches!(ty, Ty::Int(_)) && self.r.percent(20) => " = {}".to_string(),
            _ => String::new(),
        };
        let text = format!("g{number}");
        let storage = if inside || self.r.percent(70) { "static " } else { "" };
        self.line(&format!("{storage}{}{begins};", types::declare(&ty, &text)));
        self.scope.push(Var { text, dot: ".", ty, writable: true });
    }

    /// Declares a struct with long arrays, in an array of its own or not; its members are the
    /// variables.
    fn long_arrays(&mut self) {
        let number = self.kept;
        if number == MOST {
            return;
        }
        self.kept += 1;
        let mut members = Vec::new();
        for at in 0..2 + self.r.below(3) {
            let ty = match self.r.below(5) {
                0 => Ty::Struct(self.r.below(self.structs.len())),
                1 | 2 => Ty::Int(self.r.of(&types::INTS)),
                _ => {
                    let element = self.some_type(20);
                    Ty::Array(Box::new(element), 17 + self.r.below(50) as u32)
                }
            };
            members.push((format!("m{at}"), ty));
        }
        let declared: String =
            members.iter().map(|(name, ty)| format!(" {};", types::declare(ty, name))).collect();
        let rows = self.r.percent(30).then(|| 1 + self.r.below(3));
        let dims = rows.map_or(String::new(), |rows| format!("[{rows}]"));
        let begins = match (&members[0].1, rows) {
            (Ty::Int(_), None) if self.r.percent(50) => format!(" = {{{}}}", self.constant()),
            (Ty::Array(of, _), None) if matches!(**of, Ty::Int(_)) && self.r.percent(50) => {
                let (a, b) = (self.constant(), self.constant());
                format!(" = {{.m0 = {{{a}, [3] = {b}}}}}")
            }
            _ => String::new(),
        };
        self.line(&format!("static struct {{{declared} }} g{number}{dims}{begins};"));
        let row = rows.map_or(String::new(), |rows| format!("[{}]", self.r.below(rows)));
        for (name, ty) in members {
            let text = format!("g{number}{row}.{name}");
            self.scope.push(Var { text, dot: ".", ty, writable: true });
        }
    }
}
