//! Every pass, and the pipeline that runs unless somebody asks for another.

use crate::Pass;
use crate::cse::Cse;
use crate::dce::Dce;
use crate::event_params::EventParams;
use crate::fold::Fold;
use crate::inline::Inline;
use crate::live_members::LiveMembers;
use crate::merge_checksums::MergeChecksums;
use crate::regex_loops::RegexLoops;
use crate::simplify_control::SimplifyControl;
use crate::split_paths::SplitPaths;
use crate::split_structs::SplitStructs;
use crate::thread_branches::ThreadBranches;
use crate::unroll::{Unroll, UnrollShort};

/// All passes, in the order in which they are listed to users. `split-structs`, `live-members` and
/// `event-params` are for programs with several stages; the planner runs them behind each cut, or
/// before all.
pub const PASSES: [&dyn Pass; 14] = [
    &Inline,
    &Fold,
    &MergeChecksums,
    &ThreadBranches,
    &SimplifyControl,
    &Cse,
    &Dce,
    &RegexLoops,
    &UnrollShort,
    &SplitPaths,
    &Unroll,
    &SplitStructs,
    &LiveMembers,
    &EventParams,
];

/// What runs first, once.
pub const PREPARE: [&str; 1] = ["inline"];

/// What runs after that again and again until nothing changes.
pub const SIMPLIFY: [&str; 6] =
    ["fold", "merge-checksums", "thread-branches", "simplify-control", "cse", "dce"];

/// What makes the program larger where code for it becomes faster, once, when it is simple; then it
/// is simplified again.
pub const EXPAND: [&str; 3] = ["regex-loops", "unroll-short", "split-paths"];

/// Passes that code generators need, whatever else was asked for: they write ops that none of them
/// knows as others.
pub const REQUIRED: [&str; 1] = ["regex-loops"];

/// Each round makes the program smaller or simpler; this many are far more than programs need.
pub const MAX_ROUNDS: usize = 20;

/// The pass of a name.
pub fn pass_named(name: &str) -> Option<&'static dyn Pass> {
    PASSES.into_iter().find(|pass| pass.name() == name)
}
