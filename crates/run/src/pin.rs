//! Keeping a thread on one CPU.

/// Keeps the calling thread on one CPU; dropping it gives the thread its CPUs back.
pub(crate) struct Pinned(Option<libc::cpu_set_t>);

impl Pinned {
    pub(crate) fn to_this_cpu() -> Pinned {
        // SAFETY: no arguments.
        Pinned::to(u32::try_from(unsafe { libc::sched_getcpu() }).unwrap_or(0))
    }

    /// Moves the thread to a CPU and keeps it there.
    pub(crate) fn to(cpu: u32) -> Pinned {
        // SAFETY: all-zero is a valid set; the sets live through the calls.
        unsafe {
            let mut before: libc::cpu_set_t = std::mem::zeroed();
            if libc::sched_getaffinity(0, size_of_val(&before), &mut before) != 0 {
                return Pinned(None);
            }
            let mut one: libc::cpu_set_t = std::mem::zeroed();
            libc::CPU_SET(cpu as usize, &mut one);
            // Order does not hang on it: a refusal (a container's policy) only costs speed.
            libc::sched_setaffinity(0, size_of_val(&one), &one);
            Pinned(Some(before))
        }
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        if let Some(before) = &self.0 {
            // SAFETY: a set that lives through the call.
            unsafe { libc::sched_setaffinity(0, size_of_val(before), before) };
        }
    }
}
