//! Who has to act on an error; the program's exit status follows from it.

/// The party at fault when something fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The program or its input: a capture, a table file, a program the kernel refuses.
    User,
    /// The machine lacks something: a privilege, a kernel feature, a tool.
    Environment,
}

impl Fault {
    /// Exit status of `nicforge` for such an error.
    pub fn exit_code(self) -> u8 {
        match self {
            Fault::User => 1,
            Fault::Environment => 3,
        }
    }
}
