//! Bytes in front of values in maps: the kernel changes a number atomically only where its address
//! is a multiple of its size.
//!
//! Members of packed structs lie anywhere in a value. The value as a whole moves, so that those of
//! them that handlers change in place are aligned; what a value looks like inside, and from
//! outside, stays as it is.

use nicforge_ir::{Op, Program, Span, TableId, TableKind};

use crate::artifact::XdpRule;
use crate::c::body::Unsupported;
use crate::inplace::tables::offset;

/// Bytes to which the kernel aligns every value.
const WORD: u32 = 8;

/// A number that is changed in place.
struct Place {
    at: u32,
    size: u32,
    span: Span,
}

/// Bytes in front of a table's values.
///
/// # Errors
/// No number of bytes aligns all that is changed in place, or the host sees the map as it is.
pub fn front(program: &Program, table: TableId) -> Result<u32, Unsupported> {
    let def = &program.tables[table];
    let align = program.layout(def.value).align as usize;
    let places = places(program, table);
    // In a rule other members lie before the value; what stands in front of it is a multiple of a
    // word then.
    let before = match def.kind {
        TableKind::Ternary => XdpRule::of(program, table, 0).value,
        _ => 0,
    };
    let aligned = |front: u32, place: &Place| {
        let begins = if front == 0 { before } else { front };
        (begins + place.at).is_multiple_of(place.size)
    };
    let fits = |front: &u32| places.iter().all(|place| aligned(*front, place));
    let refuse = |place: &Place, why: String| {
        Err(Unsupported {
            message: format!(
                "a number of {} bytes at byte {} of the values of `{}` is changed in place, {why}",
                place.size, place.at, def.name
            ),
            help: "lay the struct out without `packed`, or put its counters first, the largest before the others"
                .into(),
            span: place.span,
        })
    };
    let Some(odd) = places.iter().find(|place| !aligned(0, place)) else { return Ok(0) };
    if def.shared {
        return refuse(odd, "and the host maps this table: it cannot lie elsewhere".into());
    }
    match (0..=WORD).step_by(align).find(fits) {
        Some(front) => Ok(front),
        None => refuse(
            odd,
            "and so is another, so that not both can lie at a multiple of their size".into(),
        ),
    }
}

/// Places in values of a table that handlers change atomically, each once.
fn places(program: &Program, table: TableId) -> Vec<Place> {
    let mut found: Vec<Place> = Vec::new();
    for handler in program.handlers.values() {
        let body = &handler.body;
        body.for_each_inst(body.entry(), &mut |inst| {
            let data = &body.insts[inst];
            let Op::Commute { table: of, path, .. } = &data.op else { return };
            let Some((at, part)) = offset(program, body, program.tables[table].value, path) else {
                return;
            };
            let size = program.size_of(part);
            let known = found.iter().any(|known| (known.at, known.size) == (at, size));
            if *of == table && matches!(part.bits(), Some(32 | 64)) && !known {
                found.push(Place { at, size, span: data.span });
            }
        });
    }
    found
}

#[cfg(test)]
mod tests {
    use nicforge_ir::text::parse;

    use super::*;

    /// Bytes in front of values whose members are bytes and words in turn, if the words of some are
    /// added to.
    fn front_of(members: &str, added: &[&str], shared: &str) -> Result<u32, String> {
        let table = format!("table t: array[u32 -> s] capacity 4{shared}");
        front_in(&table, "u32", members, added)
    }

    fn front_in(table: &str, key: &str, members: &str, added: &[&str]) -> Result<u32, String> {
        let lines: String =
            added.iter().map(|name| format!("  commute add t[%k].{name}, %{name}\n")).collect();
        let text = format!(
            "program p ports 1\nstruct s packed {{ {members} }}\n{table}\n\
             reason \"no\"\nevent net_recv(pkt: packet) in\n\
             handler net_recv on net_recv(%pkt: packet) {{\n  %k: {key} = 1\n\
             %a: u32 = 1\n  %b: u32 = 1\n  %c: u64 = 1\n{lines}  drop %pkt, \"no\"\n  return\n}}\n"
        );
        let program =
            parse(&text).unwrap_or_else(|e| panic!("{text}: line {}: {}", e.line, e.message));
        let table = program.table_named("t").unwrap();
        front(&program, table).map_err(|error| error.to_string())
    }

    #[test]
    fn values_move_until_all_is_aligned() {
        let members = "x: u8, a: u32, y: u8, b: u32, c: u64";
        assert_eq!(front_of(members, &[], ""), Ok(0));
        assert_eq!(front_of(members, &["a"], ""), Ok(3));
        assert_eq!(front_of(members, &["b"], ""), Ok(2));
        assert_eq!(front_of(members, &["b", "c"], ""), Ok(6));
    }

    #[test]
    fn values_of_rules_begin_behind_masks() {
        let rules = |members: &str, added: &[&str]| {
            let table = "table t: ternary[u8 -> s] capacity 4";
            front_in(table, "u8", members, added)
        };
        let members = "a: u32, x: u8, b: u16";
        assert_eq!(rules(members, &[]), Ok(0));
        assert_eq!(rules(members, &["a"]), Ok(4));
        assert_eq!(rules("x: u16, a: u32", &["a"]), Ok(0));
    }

    #[test]
    fn what_cannot_lie_right_is_refused() {
        let error = front_of("x: u8, a: u32, y: u8, b: u32", &["a", "b"], "").unwrap_err();
        assert!(error.contains("4 bytes at byte 1 of the values of `t`"), "{error}");
    }
}
