//! Packet bytes that compilers load one by one and put together: read again as one number.
//!
//! Members of packed structures may lie anywhere, so compilers read them byte by byte. What such
//! bytes make up is followed through shifts and `or`; once it is a number of two, four or eight
//! bytes that lie side by side, one load takes the place of all.

use nicforge_ir::{Op, Type, ValueId};

use crate::lifter::{Bytes, Lifter};
use crate::value::Num;

impl Lifter<'_> {
    /// Notes what a load at a known place read.
    pub fn note_load(&mut self, value: ValueId, off: u64, count: u32) {
        let version = self.version;
        self.bytes.insert(value, Bytes { off, count, shift: 0, version });
    }

    /// Packet bytes that a number is, whatever its width.
    fn bytes_of(&self, num: Num) -> Option<Bytes> {
        let mut id = num.id?;
        loop {
            if let Some(found) = self.bytes.get(&id) {
                return Some(*found);
            }
            match self.body.def_op(id) {
                // Only what keeps all of it.
                Some(Op::Cast(inner)) if self.body.ty(*inner).bits() <= self.body.ty(id).bits() => {
                    id = *inner;
                }
                _ => return None,
            }
        }
    }

    /// Notes that packet bytes were moved up.
    pub fn note_shift(&mut self, value: ValueId, num: Num, by: Num, width: u32) {
        let (Some(bytes), Some(by)) = (self.bytes_of(num), by.constant()) else { return };
        let shift = bytes.shift + by as u32 / 8;
        if by % 8 == 0 && 8 * (shift + bytes.count) <= width {
            self.bytes.insert(value, Bytes { shift, ..bytes });
        }
    }

    /// Bytes that `or` puts side by side: the number they are, if one load reads it.
    pub fn side_by_side(&mut self, a: Num, b: Num) -> (Option<Num>, Option<Bytes>) {
        let (Some(a), Some(b)) = (self.bytes_of(a), self.bytes_of(b)) else { return (None, None) };
        let (low, high) = if a.shift < b.shift { (a, b) } else { (b, a) };
        let joined = low.shift + low.count == high.shift
            && low.off + u64::from(low.count) == high.off
            && low.version == high.version;
        if !joined {
            return (None, None);
        }
        let bytes = Bytes { count: low.count + high.count, ..low };
        let whole = matches!(bytes.count, 2 | 4 | 8);
        if !whole || bytes.shift > 0 || bytes.version != self.version {
            return (None, Some(bytes));
        }
        let (pkt, bits) = (self.pkt, 8 * bytes.count);
        let off = self.build().int(bytes.off, Type::U32);
        let (_, value) = self.build().push2(Op::Load { pkt, off }, Type::BOOL, Type::u(bits as u8));
        self.note_load(value, bytes.off, bytes.count);
        (Some(Num::of(value, bits)), None)
    }
}
