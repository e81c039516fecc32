//! Events that a program on an interface neither gets nor sends.

use nicforge_ir::{Direction, Event, Span};

use crate::c::body::Unsupported;

/// Refuses the event of a handler.
pub fn handled(event: &Event, span: Span) -> Unsupported {
    if event.direction == Direction::Internal {
        return waits(&event.name, span);
    }
    Unsupported {
        message: format!("target `xdp` has no event `{}`", event.name),
        help:
            "it offers `net_recv` (a packet came in), `host_send` (the host side sent a message) \
               and timers"
                .into(),
        span,
    }
}

/// Refuses an event that a handler generates.
pub fn generated(event: &Event, span: Span) -> Unsupported {
    if event.direction == Direction::Internal {
        return waits(&event.name, span);
    }
    Unsupported {
        message: format!("target `xdp` has no event `{}`", event.name),
        help: "it offers `net_send`, `stack_recv`, `host_recv`, `host_msg`, `dma_write`, \
               `net_copy` and `host_copy`"
            .into(),
        span,
    }
}

/// Refuses a queue where there is one stage.
fn waits(name: &str, span: Span) -> Unsupported {
    Unsupported {
        message: format!(
            "`{name}` has to wait until the handler that enqueues it is done, and without a plan \
             there is one stage"
        ),
        help: "`nicforge plan PROG --target xdp` gives it a stage of its own".into(),
        span,
    }
}
