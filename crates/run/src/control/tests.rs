use std::path::Path;

use nicforge_ir::{Match, Span, Table, TableKind, Type};
use serde_json::json;

use super::*;

fn program() -> Program {
    let mut p = Program::new("t");
    let mut table = |name: &str, kind, key, buf| {
        let (name, value, span) = (name.to_string(), Type::U32, Span::default());
        p.tables.push(Table {
            name,
            kind,
            key,
            key_big_endian: false,
            value,
            capacity: 8,
            buf,
            max_replicas: None,
            by_number: false,
            shared: false,
            span,
        });
    };
    table("hosts", TableKind::Hash, Type::U16, None);
    table("routes", TableKind::Lpm, Type::U32, None);
    table("acl", TableKind::Ternary, Type::U16, None);
    table("texts", TableKind::Hash, Type::U8, Some(3));
    p
}

fn read(text: &str) -> Result<Vec<(TableId, Entry)>, String> {
    parse_tables(&program(), Path::new("t.toml"), text).map_err(|error| error.to_string())
}

const ALL: &str = r#"
[[hosts]]
key = 80
value = 0xffff_ffff

[[routes]]
key = "10.1.2.3/8"
value = 1
[[routes]]
key = "10.1.0.0"
prefix = 16
[[routes]]
key = "1.2.3.4"

[[acl]]
key = 0x1234
mask = 0xff00
priority = 7
value = 2
[[acl]]
key = 5

[[texts]]
key = 1
buf = "0aFf"
"#;

#[test]
fn every_kind_of_entry() {
    let p = program();
    let entries = read(ALL).unwrap();
    let of = |name: &str| -> Vec<&Entry> {
        let id = p.table_named(name).unwrap();
        entries.iter().filter(|(table, _)| *table == id).map(|(_, entry)| entry).collect()
    };
    assert_eq!(
        (&of("hosts")[0].key[..], &of("hosts")[0].value[..]),
        (&[80, 0][..], &[0xff; 4][..])
    );
    let routes: Vec<_> =
        of("routes").iter().map(|entry| (entry.key.clone(), entry.matching.clone())).collect();
    assert_eq!(routes[0], (vec![10, 0, 0, 0], Match::Prefix(8)));
    assert_eq!(routes[1], (vec![10, 1, 0, 0], Match::Prefix(16)));
    assert_eq!(routes[2], (vec![1, 2, 3, 4], Match::Prefix(32)));
    assert_eq!(of("routes")[1].value, [0; 4]);
    let mask = |mask: [u8; 2], priority| Match::Mask { mask: mask.to_vec(), priority };
    assert_eq!(
        (&of("acl")[0].key[..], &of("acl")[0].matching),
        (&[0, 0x12][..], &mask([0, 0xff], 7))
    );
    assert_eq!(of("acl")[1].matching, mask([0xff, 0xff], 0));
    assert_eq!(of("texts")[0].buf, Some(vec![0x0a, 0xff]));
}

#[test]
fn a_dump_is_a_table_file() {
    struct Fixed(Vec<(TableId, Entry)>);
    impl TableBackend for Fixed {
        fn get(&self, _: TableId, _: &[u8], _: &Match) -> Result<Option<Entry>, TableError> {
            Ok(None)
        }
        fn set(&mut self, table: TableId, entry: &Entry) -> Result<(), TableError> {
            self.0.push((table, entry.clone()));
            Ok(())
        }
        fn delete(&mut self, _: TableId, _: &[u8], _: &Match) -> Result<bool, TableError> {
            Ok(false)
        }
        fn dump(&self, table: TableId) -> Result<Vec<Entry>, TableError> {
            Ok(self
                .0
                .iter()
                .filter(|(id, _)| *id == table)
                .map(|(_, entry)| entry.clone())
                .collect())
        }
    }
    let p = program();
    let mut backend = Fixed(Vec::new());
    apply(&mut backend, &read(ALL).unwrap()).unwrap();
    let dumped = dump_json(&p, &backend).unwrap();
    assert_eq!(dumped["acl"][0], json!({"key": 0x1200, "mask": 0xff00, "priority": 7, "value": 2}));
    assert_eq!(dumped["texts"][0], json!({"key": 1, "value": 0, "buf": "0aff"}));
    let mut again = parse_tables(&p, Path::new("d.json"), &dumped.to_string()).unwrap();
    let mut before = backend.0;
    again.sort();
    before.sort();
    assert_eq!(again, before);
}

#[test]
fn errors_name_line_table_and_remedy() {
    let message = |text| read(text).unwrap_err();
    assert_eq!(
        message("\n[[host]]\nkey = 1\n"),
        "t.toml:2: the program has no table `host`; it has `hosts`, `routes`, `acl`, `texts`"
    );
    assert_eq!(
        message("[[hosts]]\nkey = 1\nvalue = \"x\"\n"),
        "t.toml:3: table `hosts`: `value`: expected an integer, found \"x\""
    );
    assert_eq!(
        message("[[hosts]]\nkey = 1\nprefix = 3\n"),
        "t.toml:1: table `hosts`: `prefix` is no member of an entry; a hash table has `key`, `value`"
    );
    assert_eq!(
        message("[[hosts]]\nvalue = 1\n"),
        "t.toml:1: table `hosts`: the entry has no `key`"
    );
    assert_eq!(
        message("hosts = 3\n"),
        "t.toml:1: table `hosts`: expected entries, each under `[[hosts]]`"
    );
    assert_eq!(
        message("hosts = [3]\n"),
        "t.toml:1: table `hosts`: expected an entry with `key`, `value`"
    );
    assert!(message("[[hosts]]\nkey = 1.5\n").contains("1.5 is no whole number"));
    assert!(message("[[hosts]]\nkey = 99999999999999999999\n").contains("more than 64 bits"));
    assert!(message("[[hosts]]\nkey == 1\n").starts_with("t.toml:2: "));
    assert_eq!(
        message("[[routes]]\nkey = \"1.2.3.4/33\"\n"),
        "t.toml:1: table `routes`: `prefix`: prefix length 33, but keys have 32 bits"
    );
    assert!(
        message("[[routes]]\nkey = \"1.2.3.4/x\"\n")
            .starts_with("t.toml:2: table `routes`: `key`: `x` is no")
    );
    assert!(message("[[routes]]\nkey = \"1.2.3.4/8\"\nprefix = 8\n").starts_with("t.toml:3: "));
    assert!(
        message("[[texts]]\nkey = 1\nbuf = \"00112233\"\n")
            .ends_with("4 bytes, but the table's byte strings have at most 3")
    );
    assert!(message("[[texts]]\nkey = 1\nbuf = \"001\"\n").contains("bytes in hex"));
    assert_eq!(
        message("[[hosts]]\nkey = 1\n[[hosts]]\nkey = 1\n"),
        "t.toml:3: table `hosts`: the same key as at t.toml:1; an entry is either of them"
    );
    let json = |text| parse_tables(&program(), Path::new("t.json"), text).unwrap_err().to_string();
    assert!(json("{").starts_with("t.json:1:1: EOF"), "{}", json("{"));
    assert!(
        json("{\"hosts\": [{\"key\": 1}, {}]}")
            .starts_with("t.json, entry 2: table `hosts`: the entry has no")
    );
}

#[test]
fn no_bytes_panic() {
    let p = program();
    let mut text = ALL.as_bytes().to_vec();
    text.insert(0, 0);
    let json = br#"1{"hosts":[{"key":1,"value":2}],"texts":[{"key":1,"buf":"00"}]}"#;
    for seed in [&text[..], json] {
        for at in 0..seed.len() {
            fuzz_tables(&p, &seed[..at]);
            for value in [0, b'"', b'[', b'9', b'/', 0xff] {
                let mut bytes = seed.to_vec();
                bytes[at] = value;
                fuzz_tables(&p, &bytes);
            }
        }
    }
}
