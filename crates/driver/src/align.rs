//! Two sequences side by side: what is in both, in order, and what only one of them has.
//!
//! Used for streams of frames without numbers: one frame that is lost or changed must not make all
//! behind it differ. At each place where the two are unlike, the nearest place behind it where they
//! are alike again is taken, nearest by what is skipped on both sides together, at most [`REACH`]
//! elements of each. So the cost is at most `REACH` squared for each difference, and linear where
//! there is none. It is not the longest common sequence, but it is one of the common sequences, and
//! a run whose streams are equal has no difference.

/// How far ahead both sides are searched: more than a run has in flight.
const REACH: usize = 256;

/// One step through both sequences.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pair {
    /// Element of the first, and its equal in the second.
    Same(usize, usize),
    /// Only the first has it, or the second has something else in its place.
    Missing(usize, Option<usize>),
    /// Only the second has it.
    Surplus(usize),
}

/// Aligns two sequences; every element of each is in exactly one pair.
pub fn align<T: PartialEq>(a: &[T], b: &[T]) -> Vec<Pair> {
    let mut pairs = Vec::with_capacity(a.len());
    let (mut i, mut j) = (0, 0);
    while i < a.len() && j < b.len() {
        if a[i] == b[j] {
            pairs.push(Pair::Same(i, j));
            (i, j) = (i + 1, j + 1);
            continue;
        }
        let (skip_a, skip_b) = nearest(&a[i..], &b[j..]);
        unlike(&mut pairs, (i, i + skip_a), (j, j + skip_b));
        (i, j) = (i + skip_a, j + skip_b);
    }
    unlike(&mut pairs, (i, a.len()), (j, b.len()));
    pairs
}

/// Ranges that have nothing in common: elements face each other as far as both go.
fn unlike(pairs: &mut Vec<Pair>, a: (usize, usize), b: (usize, usize)) {
    for i in a.0..a.1 {
        let j = b.0 + (i - a.0);
        pairs.push(Pair::Missing(i, (j < b.1).then_some(j)));
    }
    let used = (a.1 - a.0).min(b.1 - b.0);
    pairs.extend((b.0 + used..b.1).map(Pair::Surplus));
}

/// How many elements of each are skipped until both are alike again. A change in place goes before
/// a loss of as much.
fn nearest<T: PartialEq>(a: &[T], b: &[T]) -> (usize, usize) {
    let (most_a, most_b) = (a.len().min(REACH), b.len().min(REACH));
    for total in 1..=(most_a + most_b) {
        let least = total.saturating_sub(most_b);
        let found = (least..=total.min(most_a))
            .map(|skip_a| (skip_a, total - skip_a))
            .filter(|(x, y)| *x < a.len() && *y < b.len() && a[*x] == b[*y])
            .min_by_key(|(x, y)| x.abs_diff(*y));
        if let Some(found) = found {
            return found;
        }
    }
    (most_a, most_b)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Counts what both have, what is missing, what is surplus.
    fn counts(a: &[u32], b: &[u32]) -> (usize, usize, usize) {
        let pairs = align(a, b);
        let of = |kind: fn(&Pair) -> bool| pairs.iter().filter(|pair| kind(pair)).count();
        (
            of(|p| matches!(p, Pair::Same(..))),
            of(|p| matches!(p, Pair::Missing(..))),
            of(|p| matches!(p, Pair::Surplus(_))),
        )
    }

    #[test]
    fn one_loss_is_one_difference() {
        let all: Vec<u32> = (0..1000).collect();
        for lost in [0, 1, 500, 999] {
            let mut got = all.clone();
            got.remove(lost);
            assert_eq!(counts(&all, &got), (999, 1, 0), "{lost}");
            assert_eq!(counts(&got, &all), (999, 0, 1), "{lost}");
        }
        let mut got = all.clone();
        got.drain(300..340);
        got[700] = 9999;
        assert_eq!(counts(&all, &got), (959, 41, 0));
    }

    #[test]
    fn a_changed_one_faces_what_it_should_be() {
        assert_eq!(
            align(&[1, 2, 3], &[1, 9, 3]),
            [Pair::Same(0, 0), Pair::Missing(1, Some(1)), Pair::Same(2, 2)]
        );
    }

    #[test]
    fn nothing_in_common_and_nothing_at_all() {
        let (a, b): (Vec<u32>, Vec<u32>) = ((0..700).collect(), (1000..1600).collect());
        assert_eq!(counts(&a, &b), (0, 700, 0));
        assert_eq!(counts(&a, &[]), (0, 700, 0));
        assert_eq!(counts(&[], &b), (0, 0, 600));
        assert_eq!(counts(&[], &[]), (0, 0, 0));
    }
}
