//! What instructions cost, as data: another core is another value of [`Timing`].

use super::insn::Class;

/// Cycles of a single-issue in-order core. Costs of memories are the bus's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    pub alu: u8,
    pub load: u8,
    pub store: u8,
    /// Extra if the instruction after a load, or after an atomic, reads what it loaded.
    pub load_use: u8,
    /// Extra if an access crosses a word: it is made twice.
    pub misaligned: u8,
    pub atomic: u8,
    pub branch_not_taken: u8,
    pub branch_taken: u8,
    pub jump: u8,
    /// Extra if a jump or taken branch goes to a four-byte instruction that crosses a word.
    pub crossing_target: u8,
    pub multiply: u8,
    pub multiply_high: u8,
    /// A division takes this,
    pub divide: u8,
    /// and this for every leading zero of the divisor's magnitude; zero itself has 32.
    pub divide_per_zero: u8,
    pub csr: u8,
    pub system: u8,
}

impl Timing {
    /// RI5CY, the core of PULP clusters. Measured on instruction traces of PsPIN's RTL: arithmetic,
    /// store, load and atomic 1, load and use 2, taken branch 3, return 2. From the core's manual:
    /// products 1 and 5, division 3 to 35, misaligned accesses made twice, one more cycle where a
    /// jump's target crosses a word.
    pub const RI5CY: Timing = Timing {
        alu: 1,
        load: 1,
        store: 1,
        load_use: 1,
        misaligned: 1,
        atomic: 1,
        branch_not_taken: 1,
        branch_taken: 3,
        jump: 2,
        crossing_target: 1,
        multiply: 1,
        multiply_high: 5,
        divide: 3,
        divide_per_zero: 1,
        csr: 1,
        system: 1,
    };

    /// One cycle for everything: time is the number of instructions.
    pub const UNIT: Timing = Timing {
        alu: 1,
        load: 1,
        store: 1,
        load_use: 0,
        misaligned: 0,
        atomic: 1,
        branch_not_taken: 1,
        branch_taken: 1,
        jump: 1,
        crossing_target: 0,
        multiply: 1,
        multiply_high: 1,
        divide: 1,
        divide_per_zero: 0,
        csr: 1,
        system: 1,
    };

    /// Cycles of a class, without what depends on operands, targets or neighbours. Branches: not
    /// taken.
    pub fn base(&self, class: Class) -> u8 {
        match class {
            Class::Alu => self.alu,
            Class::Load => self.load,
            Class::Store => self.store,
            Class::Branch => self.branch_not_taken,
            Class::Jump => self.jump,
            Class::Multiply => self.multiply,
            Class::MultiplyHigh => self.multiply_high,
            Class::Divide => self.divide,
            Class::Atomic => self.atomic,
            Class::Csr => self.csr,
            Class::System => self.system,
        }
    }

    /// Cycles of a division.
    #[inline]
    pub fn division(&self, divisor: u32, signed: bool) -> u32 {
        let magnitude = if signed { (divisor as i32).unsigned_abs() } else { divisor };
        u32::from(self.divide) + u32::from(self.divide_per_zero) * magnitude.leading_zeros()
    }
}
