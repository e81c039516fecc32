//! Trips of a loop that counts: how many there are, and where its variable is.

use crate::intervals::Range;

/// Change of the induction variable by a trip.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    Add(i128),
    /// `>>=`, by bits.
    Shift(i128),
    /// `/=`
    Divide(i128),
    /// `i = (i - 1) / n`
    DivideLess(i128),
    /// `i = i * n + m`, by n and m.
    Multiply(i128, i128),
}

/// Comparison of the induction variable with the limit while the loop goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Test {
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    NotEqual,
}

/// Trips of a loop whose variable starts in `start`, changes by `step` while `test` against a limit
/// in `limit` holds; `whole` is the range of the variable's type. An error says why there is no
/// bound.
pub fn trips(
    start: Range,
    step: Step,
    test: Test,
    limit: Range,
    whole: Range,
) -> Result<i128, String> {
    let up_to = |value: i128, by: i128| if value <= 0 { 0 } else { (value + by - 1) / by };
    match (step, test) {
        (Step::Add(0), _) => Err("the variable does not change".into()),
        (Step::Add(by), Test::Less | Test::LessOrEqual) if by > 0 => {
            let end = if test == Test::Less { limit.1 } else { limit.1 + 1 };
            if end - 1 + by > whole.1 {
                return Err(format!(
                    "the limit can be {}, and the variable would wrap before it ends",
                    limit.1
                ));
            }
            Ok(up_to(end - start.0, by))
        }
        (Step::Add(by), Test::Greater | Test::GreaterOrEqual) if by < 0 => {
            let end = if test == Test::Greater { limit.0 } else { limit.0 - 1 };
            if end + 1 + by < whole.0 {
                return Err(format!(
                    "the limit can be {}, and the variable would wrap before it ends",
                    limit.0
                ));
            }
            Ok(up_to(start.1 - end, -by))
        }
        (Step::Add(1), Test::NotEqual) if start.1 <= limit.0 => Ok(limit.1 - start.0),
        (Step::Add(-1), Test::NotEqual) if start.0 >= limit.1 => Ok(start.1 - limit.0),
        (Step::Add(by), Test::NotEqual)
            if start.0 == start.1
                && limit.0 == limit.1
                && (limit.0 - start.0) % by == 0
                && (limit.0 - start.0) / by >= 0 =>
        {
            Ok((limit.0 - start.0) / by)
        }
        (Step::Add(_), Test::NotEqual) => {
            Err("the variable may step over the value it is compared with".into())
        }
        (Step::Add(_), _) => Err("the variable moves away from the limit".into()),
        (Step::Multiply(by, more), Test::Less | Test::LessOrEqual)
            if by.saturating_mul(start.0.max(0)).saturating_add(more) > start.0.max(0)
                && start.0 >= 0 =>
        {
            let most = limit.1 - i128::from(test == Test::Less);
            if most.max(0).saturating_mul(by).saturating_add(more) > whole.1 {
                return Err(format!(
                    "the limit can be {}, and the variable would wrap before it ends",
                    limit.1
                ));
            }
            let (mut value, mut count) = (start.0, 0);
            while value <= most {
                value = value * by + more;
                count += 1;
            }
            Ok(count)
        }
        (
            Step::Shift(_) | Step::Divide(_) | Step::DivideLess(_),
            Test::NotEqual | Test::Greater,
        ) if start.0 >= 0 && limit.0 >= 0 => {
            if test == Test::NotEqual && limit != (0, 0) {
                return Err("the variable may step over the value it is compared with".into());
            }
            let (mut value, mut count) = (start.1, 0);
            while value > 0 {
                value = match step {
                    Step::Shift(by) => value >> by.clamp(0, 127),
                    Step::Divide(by) => value / by,
                    Step::DivideLess(by) => (value - 1) / by,
                    Step::Add(_) | Step::Multiply(..) => 0,
                };
                count += 1;
            }
            Ok(count)
        }
        _ => Err("the variable does not reach the limit".into()),
    }
}

/// Ranges of a place at the start of a trip and behind the loop. Within the proved number of trips
/// it does not wrap, and moves in one direction: by one step beyond what passes the condition, and
/// where a trip is left early as far as its changes go. `first` is where the first trip's changes
/// may start without having passed.
pub fn reach(
    start: Range,
    first: Option<Range>,
    farthest: Step,
    pass: Range,
    within: Option<Range>,
    whole: Range,
) -> (Range, Range) {
    let by = match farthest {
        Step::Add(by) => by,
        Step::Multiply(by, more) => {
            let end = start.1.max(pass.1.max(0).saturating_mul(by).saturating_add(more));
            let range = (start.0, end.min(whole.1));
            return (range, range);
        }
        _ => return ((whole.0, start.1), (whole.0, start.1)),
    };
    let Some(within) = within else { return (whole, whole) };
    let (mut ahead, mut behind) = (start, start);
    let mut also = |from: Range, low: i128, high: i128| {
        behind = (behind.0.min(from.0 + low), behind.1.max(from.1 + high));
    };
    if by > 0 {
        also((start.0, pass.1), within.0, within.1);
        ahead.1 = start.1.max(pass.1 + by);
    } else {
        also((pass.0, start.1), within.0, within.1);
        ahead.0 = start.0.min(pass.0 + by);
    }
    if let Some(first) = first {
        also(first, within.0, within.1);
    }
    let inside = |range: Range| range.0 >= whole.0 && range.1 <= whole.1;
    let clipped = (ahead.0.max(whole.0), ahead.1.min(whole.1));
    (clipped, if inside(behind) { behind } else { whole })
}

pub fn test_of(opcode: &str) -> Option<Test> {
    Some(match opcode {
        "<" => Test::Less,
        "<=" => Test::LessOrEqual,
        ">" => Test::Greater,
        ">=" => Test::GreaterOrEqual,
        "!=" => Test::NotEqual,
        _ => return None,
    })
}

pub fn mirrored(test: Test) -> Test {
    match test {
        Test::Less => Test::Greater,
        Test::LessOrEqual => Test::GreaterOrEqual,
        Test::Greater => Test::Less,
        Test::GreaterOrEqual => Test::LessOrEqual,
        Test::NotEqual => Test::NotEqual,
    }
}

#[cfg(test)]
#[path = "trips_tests.rs"]
mod tests;
