//! Parts of aggregates: members, elements by a constant or by a value, elements of constant arrays.

use super::super::shape::Part;
use super::*;

/// Most elements of an array that are chosen by a bit for each.
const MOST_CHOICES: u32 = 64;

impl Lower<'_> {
    /// The bit at which a part with indices starts, and whether all indices are within their
    /// arrays.
    fn place(&mut self, part: &Part) -> (String, String) {
        let mut at = number(32, u64::from(part.at));
        let mut inside = Vec::new();
        for index in &part.indices {
            let width = self.width(index.value);
            let text = self.operand(index.value);
            let wide = Self::resize(&text, width, 32);
            at = format!("{at} + {wide} * {}", number(32, u64::from(index.stride)));
            // An index that cannot be as large as the array is long needs no check.
            if width >= 64 || u64::from(index.len) < 1 << width {
                inside.push(format!("{text} < {}", number(width, u64::from(index.len))));
            }
        }
        (at, if inside.is_empty() { "1'b1".to_string() } else { inside.join(" && ") })
    }

    /// A part's bits as a value of type `part.ty` with `width` bits: odd widths cut, short signed
    /// bit-fields extended.
    fn read(&mut self, from: &str, part: &Part, width: u32) -> String {
        let kept = part.bits.min(width);
        let low = format!("{from}[{}:{}]", part.at + kept - 1, part.at);
        match () {
            () if kept == width => low,
            () if part.ty.is_signed() => {
                format!("{{{{{}{{{from}[{}]}}}}, {low}}}", width - kept, part.at + kept - 1)
            }
            () => format!("{{{}, {low}}}", number(width - kept, 0)),
        }
    }

    /// Which of `len` elements an index names: a bit each. A number beyond the array is none of
    /// them.
    fn which(&mut self, index: ValueId, len: u32, list: &mut Vec<Wire>) -> String {
        let (wide, text) = (self.width(index), self.operand(index));
        let number_of = Self::resize(&text, wide, wide.max(8));
        let value = format!("{} << {number_of}", number(len, 1));
        let which = self.wire("which", len, value, timing::tree(8));
        let name = mark(&which.name);
        list.push(which);
        name
    }

    pub(super) fn get(
        &mut self,
        agg: ValueId,
        path: &[Proj],
        result: ValueId,
        list: &mut Vec<Wire>,
    ) -> (String, u32) {
        let width = self.width(result);
        let Some(part) = self.bits.locate(self.ty(agg), path, |v| self.constant(v)) else {
            return (number(width, 0), 0);
        };
        let from = self.signal(agg);
        if part.indices.is_empty() {
            return (self.read(&from, &part, width), 0);
        }
        if let [index] = &part.indices[..]
            && index.len <= MOST_CHOICES
        {
            // As many bits as the element has, where a shift would move the whole aggregate.
            let which = self.which(index.value, index.len, list);
            let kept = part.bits.min(width);
            let element = |at: u32| {
                let low = part.at + at * index.stride;
                format!("({{{kept}{{{which}[{at}]}}}} & {from}[{}:{low}])", low + kept - 1)
            };
            let all: Vec<String> = (0..index.len).map(element).collect();
            let read =
                self.wire("element", kept, all.join("\n      | "), timing::tree(2 * index.len));
            let element = Part { at: 0, indices: Vec::new(), ..part.clone() };
            let value = self.read(&mark(&read.name), &element, width);
            list.push(read);
            return (value, 0);
        }
        let (at, inside) = self.place(&part);
        let choices: u32 = part.indices.iter().map(|index| index.len).product();
        let kept = part.bits.min(width);
        let shifted = format!("{kept}'({from} >> ({at}))");
        let value = Self::resize(&shifted, kept, width);
        (format!("({inside}) ? {value} : {}", number(width, 0)), timing::mux(choices) + 400)
    }

    pub(super) fn set(
        &mut self,
        agg: ValueId,
        path: &[Proj],
        value: ValueId,
        list: &mut Vec<Wire>,
    ) -> (String, u32) {
        let whole = self.width(agg);
        let Some(part) = self.bits.locate(self.ty(agg), path, |v| self.constant(v)) else {
            return (self.operand(agg), 0);
        };
        let width = self.width(value);
        let text = self.operand(value);
        let new = Self::resize(&text, width, part.bits);
        if part.indices.is_empty() {
            let end = part.at + part.bits;
            let mut pieces = Vec::new();
            if end < whole {
                pieces.push(format!("{}[{}:{end}]", self.signal(agg), whole - 1));
            }
            pieces.push(new);
            if part.at > 0 {
                pieces.push(format!("{}[{}:0]", self.signal(agg), part.at - 1));
            }
            return (format!("{{{}}}", pieces.join(", ")), 0);
        }
        if let [index] = &part.indices[..]
            && index.stride == part.bits
            && index.len <= MOST_CHOICES
        {
            // Which element it is is known by the time the value comes.
            let (old, which_name) = (self.signal(agg), self.which(index.value, index.len, list));
            let mut pieces = Vec::new();
            let end = part.at + index.len * index.stride;
            if end < whole {
                pieces.push(format!("{old}[{}:{end}]", whole - 1));
            }
            for at in (0..index.len).rev() {
                let low = part.at + at * index.stride;
                pieces.push(format!(
                    "{which_name}[{at}] ? {new} : {old}[{}:{low}]",
                    low + index.stride - 1
                ));
            }
            if part.at > 0 {
                pieces.push(format!("{old}[{}:0]", part.at - 1));
            }
            return (format!("{{{}}}", pieces.join(",\n      ")), timing::CHOOSE);
        }
        let (at, inside) = self.place(&part);
        let old = self.operand(agg);
        let ones = literal(whole, &ones(part.bits));
        let new = Self::resize(&new, part.bits, whole);
        let text =
            format!("({inside}) ? ({old} & ~({ones} << ({at}))) | ({new} << ({at})) : {old}");
        (text, 1200)
    }

    pub(super) fn const_elem(
        &mut self,
        array: nicforge_ir::ConstId,
        index: ValueId,
        result: ValueId,
    ) -> (String, u32) {
        let def = &self.bits.program.consts[array];
        let (size, width) = (self.bits.bytes(def.elem), self.width(result));
        let all = 8 * def.bytes.len() as u32;
        let (wide, text) = (self.width(index), self.operand(index));
        let len = all / (8 * size).max(1);
        let at = format!("{} * {}", Self::resize(&text, wide, 32), number(32, u64::from(8 * size)));
        let mut value = format!("{width}'({} >> ({at}))", literal(all.max(1), &def.bytes));
        if let Some(mask) = self.bits.meaning(def.elem).filter(|_| !def.elem.is_int()) {
            value = format!("({value} & {})", literal(width, &mask));
        }
        let inside = if wide >= 64 || u64::from(len) < 1 << wide {
            format!("{text} < {}", number(wide, u64::from(len)))
        } else {
            "1'b1".to_string()
        };
        (format!("({inside}) ? {value} : {}", number(width, 0)), timing::mux(len) + 400)
    }
}
