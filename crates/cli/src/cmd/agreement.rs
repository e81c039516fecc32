//! Agreement of figures with what judges them.

use std::fmt;

/// Errors that figures are counted within.
const WITHIN: [f64; 2] = [0.10, 0.25];

/// Figures that agree with a judge within each error.
pub struct Agreement {
    pub compared: usize,
    pub within: [usize; WITHIN.len()],
    /// Half of the figures are off by no more.
    pub median: f64,
}

impl Agreement {
    /// Counts figures, each over what the judge says.
    pub fn of(ratios: impl Iterator<Item = f64>) -> Agreement {
        // Both ways alike: half the rate is as far off as twice the rate.
        let mut off: Vec<f64> = ratios.map(|ratio| ratio.max(1.0 / ratio) - 1.0).collect();
        off.sort_by(f64::total_cmp);
        Agreement {
            compared: off.len(),
            within: WITHIN.map(|most| off.iter().filter(|off| **off <= most).count()),
            median: off.get(off.len() / 2).copied().unwrap_or(0.0),
        }
    }
}

impl fmt::Display for Agreement {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let within = WITHIN.iter().zip(self.within);
        let within: Vec<String> =
            within.map(|(most, count)| format!("{count} within {:.0} %", 100.0 * most)).collect();
        write!(f, "{}", within.join(", "))
    }
}
