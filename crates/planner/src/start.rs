//! What a target's plans begin with.

use std::borrow::Cow;

use nicforge_ir::{HandlerId, Program, Side, Verified};
use nicforge_passes::fuse::{fuse, fuse_where};
use nicforge_passes::{PassError, PassManager};
use nicforge_target::support::needs_host;
use nicforge_target::{LinkKind, Target};

use crate::stages::{sends_to, stages};

/// A program as plans for a target begin with it: fused where units cannot hand anything on, or
/// where that is never better; what only the host side can run is pinned there.
///
/// # Errors
/// Those of the passes it uses: bugs.
pub fn start<'p>(
    program: &'p Verified<Program>,
    target: &Target,
) -> Result<Cow<'p, Verified<Program>>, PassError> {
    if target.in_a_row() {
        // A design is all on one chip.
        let mut open = program.clone().into_inner();
        open.handlers.values_mut().for_each(|handler| handler.side = None);
        return fuse(PassManager::new().reverify("start", open)?).map(Cow::Owned);
    }
    if target.links.is_empty() {
        return fuse(program.clone()).map(Cow::Owned);
    }
    let on_host = needs_host(program, target);
    let mut started = Cow::Borrowed(program);
    if !on_host.is_empty() {
        let mut placed = program.clone().into_inner();
        on_host.into_iter().for_each(|handler| placed.handlers[handler].side = Some(Side::Host));
        started = Cow::Owned(PassManager::new().reverify("start", placed)?);
    }
    if only_forward(target) && goes_back(&started) {
        // Of handlers with a stage in common one cannot send to the other.
        let fused = fuse_where(started.into_owned(), &|program, owner, handler| {
            let both = |stage: &Vec<HandlerId>| stage.contains(&owner) && stage.contains(&handler);
            stages(program).iter().any(both)
        })?;
        // Nor can it by way of a third.
        started = Cow::Owned(if goes_back(&fused) { fuse(fused)? } else { fused });
    }
    Ok(started)
}

/// True if a stage of the NIC sends to itself or to an earlier one.
fn goes_back(program: &Program) -> bool {
    let stages = stages(program);
    stages.iter().enumerate().any(|(at, from)| {
        let host = from.iter().all(|handler| program.handlers[*handler].side == Some(Side::Host));
        !host && stages[..=at].iter().any(|to| sends_to(program, from, to))
    })
}

/// True if a stage of the NIC cannot send to itself: its queue would keep itself.
pub(crate) fn only_forward(target: &Target) -> bool {
    target.links.iter().any(|link| link.kind == LinkKind::Cpumap)
}
