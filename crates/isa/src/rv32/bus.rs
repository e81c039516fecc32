//! What a core sees of the world: memories, devices, registers of its surroundings.
//!
//! The core asks one access at a time and is told the value and how many cycles more than its own
//! the access took; whoever implements [`Bus`] puts banks, remote memories and devices behind it.
//! All times are the core's cycles.

/// One access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    pub at: u32,
    /// Bytes: 1, 2 or 4. The address need not be a multiple, except for atomics.
    pub size: u32,
    /// Cycle at which the instruction begins.
    pub now: u64,
    /// The core is in user mode.
    pub user: bool,
}

/// The reply to an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reply {
    /// Loaded value, zero extended; nothing for stores.
    pub value: u32,
    /// Cycles beyond those of the instruction.
    pub wait: u32,
    /// The run is to end after this instruction ([`super::Stop::Paused`]): something happened that
    /// others must see now.
    pub pause: bool,
}

impl Reply {
    /// A value without waiting.
    #[inline]
    pub fn now(value: u32) -> Reply {
        Reply { value, wait: 0, pause: false }
    }
}

/// Why an access did not happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Not allowed or nothing there; the instruction traps.
    Fault(&'static str),
    /// Not yet: the instruction has not happened and is tried again when the core runs on.
    Later,
}

/// Effects of atomics on memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Amo {
    Swap,
    Add,
    Xor,
    And,
    Or,
    Min,
    Max,
    MinUnsigned,
    MaxUnsigned,
}

impl Amo {
    /// Writes where `old` stood.
    #[inline]
    pub fn apply(self, old: u32, value: u32) -> u32 {
        match self {
            Amo::Swap => value,
            Amo::Add => old.wrapping_add(value),
            Amo::Xor => old ^ value,
            Amo::And => old & value,
            Amo::Or => old | value,
            Amo::Min => (old as i32).min(value as i32) as u32,
            Amo::Max => (old as i32).max(value as i32) as u32,
            Amo::MinUnsigned => old.min(value),
            Amo::MaxUnsigned => old.max(value),
        }
    }
}

/// Memory and devices around one core.
pub trait Bus {
    /// Bytes of an instruction cache line, a power of two; 0 if nothing is to be asked about
    /// fetches.
    const LINE: u32 = 0;

    /// Loads.
    ///
    /// # Errors
    /// See [`Refusal`].
    fn load(&mut self, access: Access) -> Result<Reply, Refusal>;

    /// Stores the low bytes of a value.
    ///
    /// # Errors
    /// See [`Refusal`].
    fn store(&mut self, access: Access, value: u32) -> Result<Reply, Refusal>;

    /// Two bytes of an instruction outside the predecoded code. Takes no time; [`Bus::line`] does.
    ///
    /// # Errors
    /// See [`Refusal`].
    fn fetch(&mut self, at: u32) -> Result<u16, Refusal>;

    /// Cycles the core waits because its next instruction lies in the line at this address, which
    /// is not the line of the instruction before.
    fn line(&mut self, _at: u32, _now: u64) -> u32 {
        0
    }

    /// Reads, changes and writes a word at once; gives what it was.
    ///
    /// # Errors
    /// See [`Refusal`].
    fn amo(&mut self, access: Access, amo: Amo, value: u32) -> Result<Reply, Refusal> {
        let old = self.load(access)?;
        let stored = self.store(access, amo.apply(old.value, value))?;
        Ok(Reply {
            value: old.value,
            wait: old.wait + stored.wait,
            pause: old.pause | stored.pause,
        })
    }

    /// Loads a word and reserves it for this core.
    ///
    /// # Errors
    /// See [`Refusal`].
    fn load_reserved(&mut self, access: Access) -> Result<Reply, Refusal>;

    /// Stores if the reservation still stands, and gives it up. The value of the reply is 0 if
    /// stored.
    ///
    /// # Errors
    /// See [`Refusal`].
    fn store_conditional(&mut self, access: Access, value: u32) -> Result<Reply, Refusal>;

    /// A control register that the core itself does not have; `None` if nobody has it.
    fn csr_read(&mut self, _number: u16, _now: u64) -> Option<u32> {
        None
    }

    /// Writes such a register. Gives whether there is one.
    fn csr_write(&mut self, _number: u16, _value: u32, _now: u64) -> bool {
        false
    }
}

/// One piece of memory and nothing else: every access takes the instruction's own time.
#[derive(Clone, Debug)]
pub struct FlatMemory {
    base: u32,
    bytes: Vec<u8>,
    reserved: Option<u32>,
}

impl FlatMemory {
    /// Zeros from an address on.
    pub fn new(base: u32, size: usize) -> FlatMemory {
        FlatMemory { base, bytes: vec![0; size], reserved: None }
    }

    /// The bytes at an address, `None` if they are not all there.
    pub fn bytes(&self, at: u32, size: usize) -> Option<&[u8]> {
        let start = at.checked_sub(self.base)? as usize;
        self.bytes.get(start..start.checked_add(size)?)
    }

    /// Bytes of the memory, to be changed.
    pub fn bytes_mut(&mut self, at: u32, size: usize) -> Option<&mut [u8]> {
        let start = at.checked_sub(self.base)? as usize;
        self.bytes.get_mut(start..start.checked_add(size)?)
    }
}

const OUTSIDE: Refusal = Refusal::Fault("no memory at this address");

impl Bus for FlatMemory {
    #[inline(always)]
    fn load(&mut self, access: Access) -> Result<Reply, Refusal> {
        let bytes = self.bytes(access.at, access.size as usize).ok_or(OUTSIDE)?;
        Ok(Reply::now(match *bytes {
            [a] => u32::from(a),
            [a, b] => u32::from(u16::from_le_bytes([a, b])),
            [a, b, c, d] => u32::from_le_bytes([a, b, c, d]),
            _ => return Err(OUTSIDE),
        }))
    }

    #[inline(always)]
    fn store(&mut self, access: Access, value: u32) -> Result<Reply, Refusal> {
        let size = access.size as usize;
        let bytes = self.bytes_mut(access.at, size).ok_or(OUTSIDE)?;
        let value = value.to_le_bytes();
        match size {
            1 => bytes.copy_from_slice(&value[..1]),
            2 => bytes.copy_from_slice(&value[..2]),
            _ => bytes.copy_from_slice(&value),
        }
        Ok(Reply::now(0))
    }

    fn fetch(&mut self, at: u32) -> Result<u16, Refusal> {
        let bytes = self.bytes(at, 2).ok_or(OUTSIDE)?;
        Ok(u16::from_le_bytes([bytes[0], bytes[1]]))
    }

    fn load_reserved(&mut self, access: Access) -> Result<Reply, Refusal> {
        let reply = self.load(access)?;
        self.reserved = Some(access.at);
        Ok(reply)
    }

    fn store_conditional(&mut self, access: Access, value: u32) -> Result<Reply, Refusal> {
        if self.reserved.take() != Some(access.at) {
            return Ok(Reply::now(1));
        }
        self.store(access, value)
    }
}
