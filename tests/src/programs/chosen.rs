//! Pointers that lead to one of several places, or nowhere, and functions that give them back.

use super::pointers::Array;
use super::types::{self, Ty};
use super::{Gen, Var};

impl Gen {
    /// A function that looks for a number in two arrays.
    pub fn finder(&mut self) {
        let elem = self.r.of(&["uint8_t", "uint16_t", "uint32_t", "uint64_t", "int32_t"]);
        self.finds = elem;
        self.null = self.r.percent(70);
        let last = if self.null { "NULL" } else { "b" };
        self.open(&format!("static {elem} *e2({elem} *a, {elem} *b, uint32_t n, uint32_t of)"));
        if self.r.percent(50) {
            self.line(&format!("{elem} *other = NULL;"));
            self.open("for (uint32_t i = 0; i < 6 && i < n; i++)");
            self.line("if (a[i] == of)");
            self.line("    return a + i;");
            self.line("if (!other && (uint32_t)b[i] > of)");
            self.line("    other = &b[i];");
            self.close("");
            let found = if self.null { "other" } else { "other ? other : b" };
            self.line(&format!("return {found};"));
        } else {
            self.line("if (n > 1 && a[1] < b[0])");
            self.line("    return (of & 1) ? &a[n - 1] : b;");
            self.line(&format!("return n > 2 ? a : {last};"));
        }
        self.close("\n");
    }

    /// Declares a pointer to one of several variables of a type.
    pub fn chosen_pointer(&mut self) {
        let named =
            |var: &&Var| !matches!(var.ty, Ty::Array(..)) && (var.writable || var.dot == "->");
        let vars: Vec<Var> = self.scope.iter().filter(named).cloned().collect();
        let Some(first) = vars.get(self.r.below(vars.len().max(1))).cloned() else { return };
        let alike: Vec<Var> = vars.into_iter().filter(|var| var.ty == first.ty).collect();
        let other = self.r.pick(&alike).clone();
        let address =
            |var: &Var| if var.dot == "->" { var.text.clone() } else { format!("&{}", var.text) };
        let (a, b) = (address(&first), address(&other));
        let text = format!("p{}", self.made);
        self.made += 1;
        let writable = first.writable && other.writable;
        let constant = if writable { "" } else { "const " };
        let declared = types::declare(&first.ty, &format!("*{text}"));
        let condition = self.condition();
        match self.r.below(4) {
            0 => self.line(&format!("{constant}{declared} = {condition} ? {a} : {b};")),
            1 => {
                self.line(&format!("{constant}{declared} = {a};"));
                self.line(&format!("if ({condition})"));
                self.line(&format!("    {text} = {b};"));
            }
            2 => {
                self.line(&format!("{constant}{declared};"));
                self.line(&format!("if ({condition})"));
                self.line(&format!("    {text} = {a};"));
                self.line("else");
                self.line(&format!("    {text} = {b};"));
            }
            _ => {
                self.line(&format!("{constant}{declared} = NULL;"));
                self.line(&format!("if ({condition})"));
                self.line(&format!("    {text} = {a};"));
                self.line(&format!("if (!{text})"));
                self.line(&format!("    {text} = {b};"));
            }
        }
        self.scope.push(Var { text, dot: "->", ty: first.ty, writable });
    }

    /// Looks for an element of an array, and does something where it is.
    pub fn searched(&mut self, arrays: &[Array]) {
        let array = self.r.pick(arrays).clone();
        let Array { text, elem, len } = &array;
        let alike: Vec<Array> = arrays.iter().filter(|of| of.elem == *elem).cloned().collect();
        let other = self.r.pick(&alike).clone();
        let name = format!("p{}", self.made);
        self.made += 1;
        let (e, condition) = (self.expr(1), self.condition());
        let trips = 1 + self.r.below((*len).min(5) as usize);
        self.open("");
        self.line(&format!("{elem} *{name} = NULL;"));
        self.open(&format!("for (uint32_t i = 0; i < {trips}; i++)"));
        self.line(&format!("if ({text}[i] == ({elem})({e}))"));
        self.line(&format!("    {name} = &{text}[i];"));
        self.close("");
        let at = self.index_within(other.len);
        self.line(&format!("if (!{name} && {condition})"));
        self.line(&format!("    {name} = {} + ({at});", other.text));
        self.told(&name, elem, true);
        self.close("");
    }

    /// Calls the function that looks for a number.
    pub fn found(&mut self, arrays: &[Array]) {
        let elem = self.finds;
        let fits = |array: &&Array| array.elem == elem && array.len > 1;
        let arrays: Vec<Array> = arrays.iter().filter(fits).cloned().collect();
        if arrays.is_empty() {
            return;
        }
        let (a, b) = (self.r.pick(&arrays).clone(), self.r.pick(&arrays).clone());
        let most = a.len.min(b.len).min(6);
        let (count, e) = (1 + self.r.below(most as usize), self.expr(1));
        let call = format!("e2({}, {}, {count}, {e})", a.text, b.text);
        if !self.null && self.r.percent(30) {
            return self.line(&format!("*{call} ^= 5;"));
        }
        let name = format!("p{}", self.made);
        self.made += 1;
        self.open("");
        if self.r.percent(50) {
            self.line(&format!("{elem} *{name} = {call};"));
        } else {
            self.line(&format!("{elem} *{name};"));
            self.line(&format!("if (({name} = {call}) == NULL)"));
            self.line(&format!("    {name} = {};", a.text));
        }
        self.told(&name, elem, self.null);
        self.close("");
    }

    /// Tells where a pointer leads, if it leads anywhere.
    fn told(&mut self, name: &str, elem: &str, null: bool) {
        let e = self.expr(1);
        if null {
            self.open(&format!("if ({name})"));
        }
        self.line(&format!("*{name} ^= ({elem})({e});"));
        if let Some((target, _)) = self.writable() {
            self.line(&format!("{target} = *{name};"));
        }
        if null {
            self.close("");
        }
        if let Some((target, _)) = self.writable().filter(|_| null) {
            self.line(&format!("{target} ^= {name} ? 3 : 4;"));
        }
    }
}
