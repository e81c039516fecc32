//! What stages count.

/// Counts of a stage.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StageCount {
    /// Packets by verdict: aborted, dropped, passed to the stack, sent back, redirected.
    pub verdicts: [u64; 5],
    /// Of the redirected ones those handed on to another stage.
    pub handed: u64,
}

impl StageCount {
    /// Packets the stage took.
    pub fn packets(&self) -> u64 {
        self.verdicts.iter().sum()
    }

    pub(crate) fn since(&self, before: &StageCount) -> StageCount {
        let mut verdicts = self.verdicts;
        verdicts
            .iter_mut()
            .zip(before.verdicts)
            .for_each(|(now, before)| *now = now.wrapping_sub(before));
        StageCount { verdicts, handed: self.handed.wrapping_sub(before.handed) }
    }
}
