//! Loops that move or compare one byte a trip, and loops that nearly do: what back ends do at once
//! must stay what the loops say. Indices stay inside their arrays, since C leaves the rest open.

use super::types::Ty;
use super::{Gen, Of, Var};

/// Declared once, for all of them: arrays that begin at different places of a word.
pub const STRUCT: &str = "struct s6 {\n    uint8_t at;\n    uint8_t a[20];\n    uint16_t sum;\n    uint8_t b[24];\n};\n\n";

impl Gen {
    /// A block with arrays of bytes, some loops over them, and what came of it in a variable.
    pub fn bytes(&mut self) {
        let name = format!("y{}", self.made);
        self.made += 1;
        self.open("");
        self.line(&format!("struct s6 {name} = {{}};"));
        let packet = self.of != Of::Values;
        self.fill(&name, "a", 20);
        self.fill(&name, "b", 24);
        for _ in 0..1 + self.r.below(3) {
            match self.r.below(if packet { 9 } else { 5 }) {
                0 | 1 => self.move_bytes(&name),
                2 => self.collect(&name),
                3 => self.first_difference(&name),
                4 => self.fill(&name, "a", 20),
                5 | 6 => self.load_bytes(&name),
                7 => self.emit_bytes(&name),
                _ => self.store_bytes(&name),
            }
        }
        self.open("for (uint32_t i = 0; i < 20; i++)");
        self.line(&format!("{name}.sum = {name}.sum * 31 + {name}.a[i] + {name}.b[i + 4] * 7;"));
        self.close("");
        self.scope.push(Var {
            text: format!("{name}.sum"),
            dot: ".",
            ty: Ty::Int("uint16_t"),
            writable: false,
        });
        self.assign();
        self.scope.pop();
        if let Some((target, int)) = self.writable()
            && int != "bool"
        {
            self.line(&format!("{target} = {name}.sum;"));
        }
        self.close("");
    }

    /// Opens a loop of `trips` trips, or of fewer where an expression says so.
    fn byte_loop(&mut self, trips: u32) {
        let int = self.r.of(&["uint32_t", "int", "uint8_t", "int8_t", "uint16_t", "uint64_t"]);
        let head = match self.r.below(4) {
            0 => format!("for ({int} i = 0; {trips} > i; ++i)"),
            1 => {
                let e = self.expr(1);
                format!("for ({int} i = 0; i < {trips} && i < (int)(({e}) & 31); i++)")
            }
            _ => format!("for ({int} i = 0; i < {trips}; i++)"),
        };
        self.open(&head);
        if self.r.percent(40) {
            let (e, op) = (self.expr(1), self.r.of(&[">=", ">", "=="]));
            self.line(&format!("if ((uint32_t)i {op} (uint32_t)(({e}) & 63))"));
            self.line("    break;");
        }
    }

    fn fill(&mut self, name: &str, array: &str, length: u32) {
        let from = self.r.below(4) as u32;
        let value = match self.r.below(3) {
            0 => "0".to_string(),
            1 => (self.r.bits() as u8).to_string(),
            _ => format!("{} + i * 3", self.r.bits() as u8),
        };
        self.byte_loop(length - from);
        self.line(&format!("{name}.{array}[i + {from}] = {value};"));
        self.close("");
    }

    /// A copy: up, down, backwards, every second one; between the arrays or within one.
    fn move_bytes(&mut self, name: &str) {
        if self.r.percent(30) {
            return self.memory_function(name);
        }
        let (to, from) = (self.r.below(5), self.r.below(5));
        let (a, b) = (self.r.of(&["a", "b"]), self.r.of(&["a", "b"]));
        match self.r.below(5) {
            0 => {
                self.byte_loop(10);
                self.line(&format!("{name}.{a}[i + {to}] = {name}.{b}[{} - i];", 10 + from));
            }
            1 => {
                self.byte_loop(7);
                self.line(&format!("{name}.{a}[2 * i] = {name}.{b}[i + {from}];"));
            }
            _ => {
                self.byte_loop(15);
                self.line(&format!("{name}.{a}[i + {to}] = {name}.{b}[i + {from}];"));
            }
        }
        self.close("");
    }

    /// Bytes of an array from somewhere on: at least 15 are left.
    fn some_bytes(&mut self, name: &str) -> String {
        let (array, at) = (self.r.of(&["a", "b"]), self.r.below(6));
        match self.r.below(4) {
            0 => format!("&{name}.{array}[{at}]"),
            1 => {
                let e = self.expr(1);
                format!("{name}.{array} + (({e}) & 3)")
            }
            2 => format!("{name}.{array}"),
            _ => format!("{name}.{array} + {at}"),
        }
    }

    /// A call of one of C's memory functions, on parts of the arrays or on other variables.
    fn memory_function(&mut self, name: &str) {
        let (a, b) = (self.some_bytes(name), self.some_bytes(name));
        let count = 1 + self.r.below(14);
        let text = match self.r.below(7) {
            0 | 1 => format!("memmove({a}, {b}, {count});"),
            2 => format!("memset({a}, {}, {count});", self.r.bits() as u8),
            3 => format!("memcpy(&{name}.sum, {a}, 2);"),
            4 => format!("memcpy({a}, &{name}.sum, sizeof({name}.sum));"),
            5 => format!("{name}.at += !memcmp({a}, {b}, {count});"),
            _ => format!("{name}.sum += memcmp({a}, {b}, {count}) < 0 ? 5 : 9;"),
        };
        self.line(&text);
    }

    /// Differences, in bits or as a verdict.
    fn collect(&mut self, name: &str) {
        let from = self.r.below(5);
        let (a, b) = (format!("{name}.a[i]"), format!("{name}.b[i + {from}]"));
        let way = self.r.below(4);
        let found = format!("{}{}", if way == 0 { "d" } else { "e" }, self.made);
        self.made += 1;
        self.line(&if way == 0 {
            format!("uint8_t {found} = 0;")
        } else {
            format!("bool {found} = true;")
        });
        self.byte_loop(20);
        match way {
            0 => self.line(&format!("{found} |= {a} ^ {b};")),
            1 => self.line(&format!("{found} = {found} && {a} == {b};")),
            2 => self.line(&format!("{found} = {found} & ({b} == {a});")),
            _ => {
                self.line(&format!("if ({a} != {b})"));
                self.line(&format!("    {found} = false;"));
            }
        }
        self.close("");
        self.line(&format!("{name}.sum += {found};"));
        self.line(&format!("{name}.at = {found};"));
    }

    fn first_difference(&mut self, name: &str) {
        let from = self.r.below(5);
        let (a, b) = (format!("{name}.a[i]"), format!("{name}.b[i + {from}]"));
        let op = self.r.of(&["!=", "!=", "=="]);
        self.byte_loop(18);
        self.line(&format!("if ({a} {op} {b}) {{"));
        self.line(&format!("    {name}.sum += i;"));
        self.line("    break;");
        self.line("}");
        self.close("");
    }

    /// An offset that the packet may not have.
    fn off(&mut self) -> String {
        let (e, constant) = (self.expr(1), self.r.below(30));
        if self.r.percent(60) {
            format!("{constant} + i")
        } else {
            format!("(uint32_t)(({e}) & 31) + i")
        }
    }

    fn load_bytes(&mut self, name: &str) {
        let (off, way) = (self.off(), self.r.below(3));
        self.byte_loop(20);
        self.line("uint8_t c = 0;");
        match way {
            0 => self.line(&format!("nf_load(pkt, {off}, &c);")),
            _ => {
                self.line(&format!("if (!nf_load(pkt, {off}, &c))"));
                self.line("    break;");
            }
        }
        self.line(&format!("{name}.a[i] = c;"));
        self.close("");
    }

    fn emit_bytes(&mut self, name: &str) {
        let (off, from, array) = (self.off(), self.r.below(4), self.r.percent(60));
        self.byte_loop(16);
        match array {
            true => self.line(&format!("nf_emit(pkt, &{name}.b[i + {from}]);")),
            false => {
                self.line("uint8_t c = 0;");
                self.line(&format!("nf_load(pkt, {off}, &c);"));
                self.line("nf_emit(pkt, &c);");
            }
        }
        self.close("");
    }

    fn store_bytes(&mut self, name: &str) {
        let (off, from, way) = (self.off(), self.r.below(4), self.r.percent(50));
        self.byte_loop(16);
        let store = format!("nf_store(pkt, {off}, &{name}.b[i + {from}])");
        if way {
            self.line(&format!("{store};"));
        } else {
            self.line(&format!("if (!{store})"));
            self.line("    break;");
        }
        self.close("");
    }
}
