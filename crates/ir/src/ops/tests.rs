//! The rows are as their readers take them.

use super::row::{List, Must, Piece, Row};
use super::*;

#[test]
fn text_holds_the_fields_in_order() {
    for row in ROWS {
        let fields = row.fields.iter().filter(|field| field.kind != field::Kind::Region);
        let expected: Vec<&str> = fields.map(|field| field.name).collect();
        let found: Vec<&str> = row
            .text
            .split('{')
            .skip(1)
            .filter_map(|piece| piece.split_once('}'))
            .map(|(name, _)| name.trim_matches([' ', '(', ')']))
            .collect();
        assert_eq!(found, expected, "{}", row.name);
        let lists = row
            .pieces()
            .filter(|piece| matches!(piece, Piece::Field(_, list) if *list != List::Bare));
        assert_eq!(lists.count(), row.text.matches("(").count(), "{}", row.name);
    }
}

#[test]
fn words_are_told_apart() {
    let own = ROWS.iter().map(Row::word).filter(|word| !word.is_empty());
    let mut words: Vec<&str> =
        own.chain(ROWS.iter().flat_map(|row| row.words().iter().copied())).collect();
    let all = words.len();
    words.sort_unstable();
    words.dedup();
    assert_eq!(words.len(), all);
}

#[test]
fn ops_on_a_packet_name_it_first() {
    for row in ROWS {
        let packets = row.fields.iter().filter(|field| field.must == Must::Packet).count();
        assert_eq!(packets, usize::from(row.class == Class::Packet), "{}", row.name);
        assert!(row.class != Class::Packet || row.fields[0].must == Must::Packet, "{}", row.name);
    }
}

#[test]
fn ops_with_regions_are_control() {
    for row in ROWS {
        let regions = row.fields.iter().any(|field| field.kind == field::Kind::Region);
        assert!(!regions || row.touch & super::row::CONTROL != 0, "{}", row.name);
    }
}

#[test]
fn operands_of_every_field() {
    let v = |n| ValueId::from_u32(n);
    let path = vec![Proj::Index(v(1)), Proj::Field(4), Proj::Index(v(2))];
    let mut op = Op::Set { agg: v(0), path, value: v(3) };
    let seen: Vec<u32> = op.operands().map(|value| value.as_u32()).collect();
    assert_eq!(seen, [0, 1, 2, 3]);
    op.map_operands(&mut |value| v(value.as_u32() + 10));
    let seen: Vec<u32> = op.operands().map(|value| value.as_u32()).collect();
    assert_eq!(seen, [10, 11, 12, 13]);
    assert!(op.uses(v(12)) && !op.uses(v(2)));
    assert!(op.clone() == op && op.regions().next().is_none());
    let branch = Op::If {
        cond: v(0),
        then: BlockId::from_u32(7),
        other: BlockId::from_u32(8),
        likely: None,
    };
    assert_eq!(branch.regions().map(|block| block.as_u32()).collect::<Vec<_>>(), [7, 8]);
}

/// The page of all ops, as the table has them.
fn page(written: &str) -> String {
    let mut text = written.split("\n## ").next().unwrap_or_default().to_string();
    let classes = [
        (Class::Value, "Integers, aggregates and fields of the event"),
        (Class::Packet, "The packet"),
        (Class::Entry, "Entries of tables"),
        (Class::Bytes, "Byte strings of entries"),
        (Class::Outside, "The outside"),
        (Class::Control, "Control"),
    ];
    for (class, title) in classes {
        text.push_str(&format!("\n## {title}\n\n"));
        for row in ROWS.iter().filter(|row| row.class == class) {
            text.push_str(&format!("* `{}`{}\n", row.text, touched(row)));
            row.doc.lines().for_each(|line| text.push_str(&format!("  {}\n", line.trim())));
        }
    }
    text.push_str("\n## Words\n");
    words::<BinOp>(&mut text, "Two operands");
    words::<CmpOp>(&mut text, "Comparisons");
    words::<UnOp>(&mut text, "One operand");
    words::<CommuteOp>(&mut text, "Of `commute`");
    words::<CryptoOp>(&mut text, "Of `crypto`");
    text
}

fn words<W: Words>(text: &mut String, title: &str) {
    text.push_str(&format!("\n{title}:\n\n"));
    for (_, word, doc) in W::ALL {
        let doc: Vec<&str> = doc.lines().map(str::trim).collect();
        text.push_str(&format!("* `{word}`: {}\n", doc.join("\n  ")));
    }
}

/// Names of what the op touches, for readers.
fn touched(row: &Row) -> String {
    let bits = [
        (row::READS_ENTRY, "reads the entry"),
        (row::WRITES_ENTRY, "writes the entry"),
        (row::READS_PACKET, "reads the packet"),
        (row::WRITES_PACKET, "changes the packet"),
        (row::ORDERED, "keeps its order"),
    ];
    let said: Vec<&str> =
        bits.iter().filter(|(bit, _)| row.touch & bit != 0).map(|(_, said)| *said).collect();
    if said.is_empty() { String::new() } else { format!(": {}", said.join(", ")) }
}

#[test]
fn the_page_of_ops_is_the_table() {
    let path = nicforge_filetest::root().join("docs/ops.md");
    let written = std::fs::read_to_string(&path).unwrap();
    nicforge_filetest::expect(&path, &page(&written)).unwrap_or_else(|why| panic!("{why}"));
}
