//! The planner: from one handler per event to a pipeline that suits a target.
//!
//! [`cut`] divides a handler into two that are joined by an internal event, without changing what the program
//! means.
//!
//! Architecture invariant: the planner never reads source text and knows no target; costs are handed in.

pub mod cut;
