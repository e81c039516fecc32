//! The balancer's director executes at most 1.1 times the instructions of one that was written by
//! hand for the mode.

use nicforge_bench::balance::{GATE, MODES, count, packets};
use nicforge_tests::kernel_is_missing;

#[test]
fn the_director_is_as_short_as_one_by_hand() {
    if let Some(why) = kernel_is_missing() {
        println!("skipped: {why}");
        return;
    }
    let packets = packets();
    for mode in MODES {
        for kept in [true, false] {
            let row = count(mode, kept, &packets).unwrap_or_else(|failure| panic!("{failure}"));
            assert!(row.ratio() <= GATE, "{row:?}");
        }
    }
}
