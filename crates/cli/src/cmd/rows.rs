//! Rows of validation tables: published figures beside ours.

/// Source, case, metric; published (not a number where nothing is), ours.
pub struct Row {
    pub source: &'static str,
    pub case: String,
    pub metric: &'static str,
    pub published: f64,
    pub ours: f64,
    /// A cost was chosen by it.
    pub calibrated: bool,
}

impl Row {
    /// Relative; of a verdict the difference.
    pub fn error(&self) -> f64 {
        // Verdicts are 0 or 1.
        if self.published == 0.0 { self.ours } else { self.ours / self.published - 1.0 }
    }
}

/// Lines of a table without its header, as fields.
pub fn records(text: &str) -> impl Iterator<Item = Vec<&str>> {
    text.lines().skip(1).map(|line| line.split(',').collect())
}
