//! Numbers of trips, against running loops.

use super::*;

const I32: Range = (-(1 << 31), (1 << 31) - 1);
const U8: Range = (0, 255);

/// Trips by running the loop.
fn run(start: i128, step: Step, test: Test, limit: i128) -> i128 {
    let (mut value, mut count) = (start, 0);
    let holds = |value: i128| match test {
        Test::Less => value < limit,
        Test::LessOrEqual => value <= limit,
        Test::Greater => value > limit,
        Test::GreaterOrEqual => value >= limit,
        Test::NotEqual => value != limit,
    };
    while holds(value) {
        value = match step {
            Step::Add(by) => value + by,
            Step::Shift(by) => value >> by,
            Step::Divide(by) => value / by,
            Step::DivideLess(by) => (value - 1) / by,
            Step::Multiply(by, more) => value * by + more,
        };
        count += 1;
        assert!(count < 10_000, "endless");
    }
    count
}

#[test]
fn constant_loops_are_counted_exactly() {
    for (start, step, test, limit) in [
        (0, Step::Add(1), Test::Less, 10),
        (0, Step::Add(3), Test::Less, 10),
        (0, Step::Add(1), Test::LessOrEqual, 10),
        (10, Step::Add(-1), Test::Greater, 0),
        (10, Step::Add(-3), Test::GreaterOrEqual, 0),
        (0, Step::Add(2), Test::NotEqual, 10),
        (10, Step::Add(-1), Test::NotEqual, 0),
        (100, Step::Shift(1), Test::NotEqual, 0),
        (100, Step::Divide(10), Test::Greater, 0),
        (5, Step::Add(1), Test::Less, 3),
        (100, Step::DivideLess(2), Test::Greater, 0),
        (100, Step::DivideLess(3), Test::NotEqual, 0),
        (1, Step::Multiply(2, 0), Test::Less, 64),
        (1, Step::Multiply(2, 0), Test::LessOrEqual, 64),
        (0, Step::Multiply(2, 1), Test::Less, 64),
        (3, Step::Multiply(3, 2), Test::LessOrEqual, 1000),
    ] {
        let found = trips((start, start), step, test, (limit, limit), I32);
        assert_eq!(found, Ok(run(start, step, test, limit)), "{start} {step:?} {test:?} {limit}");
    }
}

#[test]
fn wrapping_loops_have_no_bound() {
    assert!(trips((0, 0), Step::Add(1), Test::Less, (0, 256), U8).is_err());
    assert!(trips((0, 0), Step::Add(1), Test::LessOrEqual, (0, 255), U8).is_err());
    assert!(trips((10, 10), Step::Add(-1), Test::GreaterOrEqual, (0, 0), U8).is_err());
    assert!(trips((0, 0), Step::Add(2), Test::NotEqual, (5, 5), I32).is_err());
    assert!(trips((0, 0), Step::Add(-1), Test::Less, (5, 5), I32).is_err());
    assert!(trips((0, 9), Step::Multiply(2, 0), Test::Less, (50, 50), I32).is_err());
    assert!(trips((1, 1), Step::Multiply(2, 0), Test::LessOrEqual, (0, 128), U8).is_err());
    assert_eq!(trips((1, 1), Step::Multiply(2, 0), Test::Less, (0, 128), U8), Ok(7));
    assert_eq!(trips((0, 0), Step::Add(1), Test::Less, (0, 255), U8), Ok(255));
}

#[test]
fn ranges_give_the_worst_case() {
    assert_eq!(trips((2, 4), Step::Add(1), Test::Less, (0, 15), I32), Ok(13));
    assert_eq!(trips((0, 9), Step::Add(-1), Test::NotEqual, (0, 0), I32), Ok(9));
}
