//! Bounds as they come: one is printed early, all may be written to a file.

use std::fmt::Write as _;
use std::path::Path;
use std::time::{Duration, Instant};

use nicforge_bound::analysis::Options;
use nicforge_bound::search::By;
use nicforge_driver::Failure;

use super::report::name;
use crate::out;
use crate::text::si;

/// Bounds of the blocks as they stand are printed if unrolling takes longer than this.
const PATIENCE: Duration = Duration::from_millis(500);

/// Points heard of an analysis.
pub struct Curve {
    start: Instant,
    by: Vec<By>,
    /// Bounds that one order is given before anything is searched.
    stages: usize,
    heard: Vec<By>,
    printed: bool,
    points: Vec<(f64, By, f64)>,
}

/// A bound in seconds as a rate: bits a second, or packets.
fn rate(by: By, bound: f64) -> f64 {
    match by {
        By::BitRate => 8.0 / bound,
        By::PacketRate => 1.0 / bound,
    }
}

impl Curve {
    /// Begins now; `blocks` says whether there is a bound of the blocks as they stand, `print`
    /// whether to print.
    pub fn new(options: &Options, blocks: bool, print: bool) -> Curve {
        Curve {
            start: Instant::now(),
            by: options.by.clone(),
            stages: if blocks { 2 } else { 1 },
            heard: Vec::new(),
            printed: !print,
            points: Vec::new(),
        }
    }

    /// Hears of a bound in seconds per packet, or per byte.
    pub fn hear(&mut self, by: By, bound: f64) {
        self.heard.push(by);
        let no_better = |(_, other, before): &(f64, By, f64)| *other == by && *before <= bound;
        if !self.points.iter().any(no_better) {
            self.points.push((self.start.elapsed().as_secs_f64(), by, bound));
        }
        self.print();
    }

    /// Prints what is known once the program is unrolled, or if that takes long.
    pub fn print(&mut self) {
        let late = self.start.elapsed() > PATIENCE;
        let wanted = if late { 1 } else { self.stages };
        let count = |by: &By| self.heard.iter().filter(|other| *other == by).count();
        if self.printed || self.by.iter().any(|by| count(by) < wanted) {
            return;
        }
        self.printed = true;
        let latest = |by: &By| self.points.iter().rfind(|(_, other, _)| other == by);
        let each = self.by.iter().filter_map(latest).map(|(_, by, bound)| match by {
            By::BitRate => format!("{}bit/s", si(rate(*by, *bound))),
            By::PacketRate => format!("{}packet/s", si(rate(*by, *bound))),
        });
        let each: Vec<String> = each.collect();
        out::text(&format!("  before any path is checked: at least {}\n", each.join(", ")));
    }

    /// Writes seconds and bounds.
    pub fn write(&self, file: &Path) -> Result<(), Failure> {
        let mut text = String::from("seconds,by,at_least\n");
        for (seconds, by, bound) in &self.points {
            let _ = writeln!(text, "{seconds:.6},{},{:.0}", name(*by), rate(*by, *bound));
        }
        std::fs::write(file, text).map_err(|e| Failure::user(format!("{}: {e}", file.display())))
    }
}
