//! Whether a handler writes over headers it has read: a store in the frame after the cursor was set
//! back.

use nicforge_ir::{BlockId, Body, Op};

/// True if a store may follow a reset on some path.
pub fn stores_over_headers(body: &Body) -> bool {
    matches!(rewound_store(body, body.entry(), false), Rewound::Maybe)
}

enum Rewound {
    /// Not in this region. Whether a reset was before its end; `None` if its end is not reached.
    Never(Option<bool>),
    Maybe,
}

fn rewound_store(body: &Body, block: BlockId, mut rewound: bool) -> Rewound {
    for &inst in &body.blocks[block].insts {
        match &body.insts[inst].op {
            Op::Reset { .. } => rewound = true,
            op if rewound && op.overwrites() => return Rewound::Maybe,
            Op::If { then, other, .. } => {
                let mut after = None;
                for arm in [*then, *other] {
                    match rewound_store(body, arm, rewound) {
                        Rewound::Maybe => return Rewound::Maybe,
                        Rewound::Never(end) => after = after.max(end),
                    }
                }
                match after {
                    Some(end) => rewound = end,
                    None => return Rewound::Never(None),
                }
            }
            Op::Loop { body: region, .. } => {
                // A later trip comes after a reset in an earlier one, however that was left.
                let mut resets = rewound;
                body.for_each_inst(*region, &mut |inside| {
                    resets |= matches!(body.insts[inside].op, Op::Reset { .. });
                });
                if let Rewound::Maybe = rewound_store(body, *region, resets) {
                    return Rewound::Maybe;
                }
                rewound = resets;
            }
            Op::Return(_) | Op::Break { .. } | Op::Continue { .. } => return Rewound::Never(None),
            _ => {}
        }
    }
    Rewound::Never(Some(rewound))
}
