//! A handler with so many independent branches that not all ways to divide it can be looked at.

mod common;

use common::{behaviour, cut_with, difference, shared_table, text};
use nicforge_ir::generate::events;
use nicforge_ir::text::parse;
use nicforge_ir::verify;
use nicforge_planner::cut::{Objective, Options, prepare};

/// Every branch counts in a table of its own.
fn program(branches: usize) -> String {
    let tables: String =
        (0..branches).map(|i| format!("table t{i}: hash[u32 -> u32] capacity 8\n")).collect();
    let body: String = (0..branches)
        .map(|i| {
            format!(
                "%bit{i}: u32 = {} %masked{i}: u32 = and %key, %bit{i} %c{i}: u1 = ne %masked{i}, %zero
                if %c{i} {{ commute add t{i}[%key], %bit{i} }}\n",
                1u64 << (i % 32)
            )
        })
        .collect();
    format!(
        "program wide ports 2
        {tables}
        event net_recv(pkt: packet) in
        event net_send(pkt: packet, port: u32) out
        handler net_recv on net_recv(%pkt: packet) {{
            %ok: u1, %key: u32 = extract %pkt
            %zero: u32 = 0
            {body}
            emit %pkt, %key
            generate net_send(%pkt, %zero)
            return
        }}"
    )
}

#[test]
fn many_branches_are_divided_evenly_and_always_alike() {
    let program = verify(parse(&program(40)).unwrap()).unwrap();
    let input = events(3, 200);
    let want = behaviour(&program, &input, &|_| {});
    let prepared = prepare(&program).unwrap();
    let handler = prepared.handlers.keys().next().unwrap();
    for balance in [0.25, 0.5, 0.75] {
        let options = Options { objective: Objective::Tables, balance, ..Options::default() };
        let cut = cut_with(&prepared, handler, &options).unwrap();
        assert_eq!(difference(&want, &cut.program, &input, &|_| {}), None);
        assert_eq!(shared_table(&cut.program), None);
        assert!(
            (cut.shares.0 - balance).abs() <= options.tolerance,
            "{balance} became {:?}",
            cut.shares
        );
        // The conditions all follow from the key.
        assert_eq!(cut.bytes, 4, "{}", text(&cut.program));
        let again = cut_with(&prepared, handler, &options).unwrap();
        assert_eq!(text(&again.program), text(&cut.program));
    }
}
