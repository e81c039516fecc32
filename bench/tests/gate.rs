//! Generated code does what hand-written code does, with no more instructions than the gate allows.

use nicforge_bench::case::Case;
use nicforge_bench::report::{GATE, Row, table};
use nicforge_bench::{PROGRAMS, agree, count};
use nicforge_tests::kernel_is_missing;

#[test]
fn generated_code_is_as_short_as_hand_written_code() {
    if let Some(why) = kernel_is_missing() {
        println!("skipped: {why}");
        return;
    }
    let rows: Vec<Row> = PROGRAMS
        .into_iter()
        .map(|name| {
            let case = Case::new(name).unwrap_or_else(|failure| panic!("{failure}"));
            agree::agree(&case).unwrap_or_else(|failure| panic!("{failure}"));
            let counts = count::count(&case).unwrap_or_else(|failure| panic!("{failure}"));
            Row { name, counts, times: None }
        })
        .collect();
    assert_eq!(GATE.broken(&rows), Vec::<String>::new(), "\n{}", table(&rows));
}
