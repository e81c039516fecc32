//! Forms of one program for the kernel: they mean the same, and ask its verifier for less and less.

use crate::artifact::XdpArtifact;
use crate::c::body::Unsupported;

/// Ways to write a program for the kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Writing {
    /// As one would write it.
    #[default]
    Plain,
    /// Structs and arrays lie in an entry of a map for each CPU: the stack has 512 bytes, wants
    /// every access aligned, and the verifier remembers what each of them holds.
    Framed,
    /// Numbers lie there too, and the verifier knows nothing of those that go from one trip of a
    /// loop to the next: it would walk what follows once for each value that it knows, and the loop
    /// once for each trip.
    Forgetful,
    /// And loops may end at each trip, as far as the verifier knows: it takes the trips of a loop
    /// together, whatever they do. Linux 6.9 and later.
    Open,
}

impl Writing {
    /// True if the verifier knows nothing of numbers in loops.
    pub fn forgets(self) -> bool {
        matches!(self, Writing::Forgetful | Writing::Open)
    }
}

/// A program in every form that is unlike those before it.
pub fn in_every_form(
    make: impl Fn(Writing) -> Result<XdpArtifact, Vec<Unsupported>>,
) -> Result<XdpArtifact, Vec<Unsupported>> {
    let mut artifact = make(Writing::Plain)?;
    for form in [Writing::Framed, Writing::Forgetful, Writing::Open] {
        let other = make(form)?.source.plain;
        let known = other == artifact.source.plain || artifact.source.others.contains(&other);
        if !known {
            artifact.source.others.push(other);
        }
    }
    Ok(artifact)
}
