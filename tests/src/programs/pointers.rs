//! Pointers: ones that move through an array, bytes of an array seen as another integer, and
//! functions that get arrays, or parts of them, which may overlap.

use super::Gen;
use super::types::width;

/// An array in scope.
#[derive(Clone, Debug)]
pub struct Array {
    pub text: String,
    pub elem: &'static str,
    pub len: u32,
}

/// Functions with pointers to elements.
const COUNT: usize = 2;

impl Gen {
    /// Functions with pointers to elements: one reads, one writes by one what it reads by another.
    pub fn walkers(&mut self) {
        for number in 0..COUNT {
            let elem = self.r.of(&["uint8_t", "uint8_t", "uint16_t", "uint32_t", "uint64_t"]);
            let op = self.r.of(&["+=", "^=", "-=", "="]);
            let times = self.r.of(&["3", "31", "257"]);
            if number == 0 {
                self.open(&format!("static uint32_t e0(const {elem} *a, uint32_t n)"));
                self.line("uint32_t sum = 7;");
                self.line("for (uint32_t i = 0; i < 8 && i < n; i++)");
                self.line(&format!("    sum = sum * {times} + (uint32_t)a[i];"));
                self.line("return sum;");
            } else {
                self.open(&format!("static uint32_t e1({elem} *a, const {elem} *b, uint32_t n)"));
                self.line(&format!("const {elem} *end = a + n;"));
                self.open("while (a != end)");
                self.line(&format!("*a {op} *b++;"));
                self.line("a++;");
                self.close("");
                self.line("return (uint32_t)a[-1];");
            }
            self.close("\n");
            self.walkers.push(elem);
        }
        self.finder();
    }

    /// A statement with a pointer into an array.
    pub fn through_pointer(&mut self) {
        let arrays = self.arrays();
        if arrays.is_empty() {
            return;
        }
        let array = self.r.pick(&arrays).clone();
        match self.r.below(6) {
            0 => self.moving(&array),
            1 => self.seen_as(&array),
            2 => self.searched(&arrays),
            3 => self.found(&arrays),
            _ => self.handed_over(&arrays),
        }
    }

    fn moving(&mut self, array: &Array) {
        let Array { text, elem, len } = array;
        let (name, trips) = (format!("p{}", self.made), 1 + self.r.below(4));
        self.made += 1;
        let start = self.index_within(*len);
        let e = self.expr(1);
        self.open("");
        match self.r.percent(50) {
            true => self.line(&format!("{elem} *{name} = {text} + ({start});")),
            false => {
                self.line(&format!("{elem} *{name};"));
                self.line(&format!("{name} = &{text}[{start}];"));
            }
        }
        let end = format!("{text} + {len}");
        let head = format!("for (uint32_t i = 0; i < {trips} && {name} < {end}; i++)");
        self.open(&head);
        match (self.writable(), self.r.percent(50)) {
            (Some((target, _)), true) => self.line(&format!("{target} = *{name}++;")),
            _ => {
                self.line(&format!("*{name} ^= ({elem})({e});"));
                self.line(&format!("{name}++;"));
            }
        }
        self.close("");
        if let Some((target, _)) = self.writable() {
            self.line(&format!("{target} ^= {name} - {text};"));
        }
        self.close("");
    }

    fn seen_as(&mut self, array: &Array) {
        let Array { text, elem, len } = array;
        let int = self.r.of(&["uint16_t", "uint32_t", "uint8_t"]);
        let (bytes, size) = (len * size_of(elem), size_of(int));
        if *elem == "bool" || bytes < size {
            return;
        }
        let at = self.index_within(bytes - size + 1);
        let (place, e) = (format!("*({int} *)((uint8_t *){text} + ({at}))"), self.expr(1));
        match self.writable() {
            Some((target, _)) if self.r.percent(50) => self.line(&format!("{target} = {place};")),
            _ => self.line(&format!("{place} = ({int})({e});")),
        }
    }

    fn handed_over(&mut self, arrays: &[Array]) {
        let number = self.r.below(COUNT);
        let elem = self.walkers[number];
        // The bytes of other arrays do as well.
        let fits = |array: &&Array| array.elem == elem || elem == "uint8_t" && array.elem != "bool";
        let arrays: Vec<Array> = arrays.iter().filter(fits).cloned().collect();
        if arrays.is_empty() {
            return;
        }
        let (to, from) = (self.r.pick(&arrays).clone(), self.r.pick(&arrays).clone());
        let call = if number == 0 {
            let (place, room) = self.part(&to, elem, 0);
            let count = self.index_within(room + 1);
            format!("e0({place}, {count})")
        } else {
            let most = elements(&to, elem).min(elements(&from, elem));
            let count = 1 + self.r.below(most.min(6) as usize) as u32;
            let (a, _) = self.part(&to, elem, count);
            let (b, _) = self.part(&from, elem, count);
            format!("e1({a}, {b}, {count})")
        };
        match self.writable() {
            Some((target, _)) if number == 0 => self.line(&format!("{target} = {call};")),
            _ => self.line(&format!("{call};")),
        }
    }

    /// A pointer to elements of an array with room for `count` of them, and the room.
    fn part(&mut self, array: &Array, elem: &str, count: u32) -> (String, u32) {
        let all = elements(array, elem);
        let cast = if array.elem == elem { String::new() } else { format!("({elem} *)") };
        let text = &array.text;
        if count == 0 || self.r.percent(30) {
            return (format!("{cast}{text}"), all);
        }
        let most = all - count + 1;
        let at = match self.r.percent(50) {
            true => self.r.below(most as usize).to_string(),
            false => self.index_within(most),
        };
        (format!("{cast}{text} + ({at})"), all)
    }

    /// An index that is below `len` in plain C too.
    pub fn index_within(&mut self, len: u32) -> String {
        let e = self.expr(1);
        format!("REM((uint32_t)({e}), {len}u)")
    }
}

/// Elements of a type that an array's bytes are.
fn elements(array: &Array, elem: &str) -> u32 {
    array.len * size_of(array.elem) / size_of(elem)
}

fn size_of(int: &str) -> u32 {
    width(int) / 8
}
