//! Helpers that a world has.

use super::maps::{ARRAYS, TRIE};
use super::{Core, missing};
use crate::ebpf::{Fault, Memory, RegionId, helper_name};
use crate::object::Map;

/// Errors as helpers return them.
const NOT_FOUND: u64 = -2i64 as u64;
const EXISTS: u64 = -17i64 as u64;
const TOO_BIG: u64 = -7i64 as u64;
const INVALID: u64 = -22i64 as u64;
/// Largest metadata, and the smallest frame (`ETH_HLEN`).
const MOST_META: u64 = 255;
const LEAST: u64 = 14;
/// Bytes of a record at most: no ring is larger.
const MOST_RESERVED: u32 = 1 << 30;
/// `BPF_NOEXIST` and `BPF_EXIST`.
const NO_EXIST: u64 = 1;
const EXIST: u64 = 2;
/// `BPF_F_BROADCAST`, and `XDP_REDIRECT`.
const BROADCAST: u64 = 8;
const REDIRECT: u64 = 4;

impl Core<'_> {
    fn map(&self, helper: i32, handle: u64) -> Result<usize, Fault> {
        let at = usize::try_from(handle).ok().filter(|at| *at < self.maps.len());
        at.ok_or_else(|| missing(helper, "the map of the call"))
    }

    /// The key of a call on a map, and what the call counts as.
    fn key(
        &mut self,
        memory: &Memory,
        helper: i32,
        map: usize,
        key: u64,
        more: u32,
    ) -> Result<Vec<u8>, Fault> {
        let shape: &Map = &self.maps[map];
        let units = match shape.kind {
            Some(TRIE) => ((self.contents[map].len() + 1) as f64).log2(),
            _ => f64::from(shape.key_size + more),
        };
        self.tally.call(helper, shape.kind, units);
        let key = memory.read(key, shape.key_size as usize)?.to_vec();
        if !ARRAYS.iter().any(|kind| shape.kind == Some(*kind)) {
            // The bucket, and the entry with its key in front of the value.
            let hash = key.iter().fold(map as u64, |hash, byte| {
                (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
            });
            let bucket = hash % u64::from(shape.max_entries.next_power_of_two().max(1));
            let entry = self.contents[map].place(&key).map(|value| (value.address() >> 6) - 1);
            self.pipeline.lines(&[(map as u64) << 50 | bucket >> 2]);
            if let Some(entry) = entry {
                self.pipeline.lines(&[entry]);
            }
        }
        Ok(key)
    }

    /// One's complement sum of words, as `csum_partial` takes it.
    fn sum(memory: &Memory, at: u64, size: u64, invert: bool) -> Result<u64, Fault> {
        // Either side of a difference may be absent.
        let bytes = if size == 0 { &[] } else { memory.read(at, size as usize)? };
        let words = bytes.chunks(4).map(|word| {
            let mut all = [0; 4];
            all[..word.len()].copy_from_slice(word);
            let word = u32::from_le_bytes(all);
            u64::from(if invert { !word } else { word })
        });
        Ok(words.sum())
    }

    /// Addresses of a packet's part, if it is all there.
    fn part(&self, offset: u64, size: u64) -> Option<u64> {
        let at = self.data.checked_add(offset)?;
        (at.checked_add(size)? <= self.end).then_some(at)
    }

    pub(super) fn helper(
        &mut self,
        memory: &mut Memory,
        helper: i32,
        args: [u64; 5],
    ) -> Result<u64, Fault> {
        let in_place = helper == 1 && {
            let kind = self.maps[self.map(helper, args[0])?].kind;
            ARRAYS.iter().any(|array| kind == Some(*array))
        };
        if in_place {
            self.pipeline.index(args[1]);
        } else {
            self.pipeline.call(args[1]);
        }
        let by = i64::from(args[1] as i32);
        let found = |done: Option<()>, error: u64| if done.is_some() { 0 } else { error };
        Ok(match helper {
            // map_lookup_elem
            1 => {
                let map = self.map(helper, args[0])?;
                let key = self.key(memory, helper, map, args[1], 0)?;
                let value = self.contents[map].lookup(&self.maps[map], memory, &key);
                value.map_or(0, RegionId::address)
            }
            // map_update_elem
            2 => {
                let map = self.map(helper, args[0])?;
                let shape = &self.maps[map];
                let key = self.key(memory, helper, map, args[1], shape.value_size)?;
                let value = memory.read(args[2], shape.value_size as usize)?.to_vec();
                let contents = &mut self.contents[map];
                let known = contents.lookup(shape, memory, &key).is_some();
                match (known, args[3]) {
                    (true, NO_EXIST) => return Ok(EXISTS),
                    (false, EXIST) => return Ok(NOT_FOUND),
                    _ => {}
                }
                found(contents.update(shape, memory, &key, &value), TOO_BIG)
            }
            // map_delete_elem
            3 => {
                let map = self.map(helper, args[0])?;
                let key = self.key(memory, helper, map, args[1], 0)?;
                found(self.contents[map].delete(&key), NOT_FOUND)
            }
            // ktime_get_ns, _boot_ns, _coarse_ns, _tai_ns; jiffies64
            5 | 125 | 160 | 208 | 118 => {
                self.tally.call(helper, None, 0.0);
                self.time_ns
            }
            // get_prandom_u32
            7 => {
                self.tally.call(helper, None, 0.0);
                self.random.next() >> 32
            }
            // trace_printk, get_smp_processor_id, get_numa_node_id
            6 | 8 | 42 => {
                self.tally.call(helper, None, 0.0);
                0
            }
            // tail_call: program arrays are empty
            12 => {
                self.tally.call(helper, None, 0.0);
                NOT_FOUND
            }
            // redirect
            23 => {
                self.tally.call(helper, None, 0.0);
                REDIRECT
            }
            // perf_event_output, ringbuf_output
            25 | 130 => {
                let size = if helper == 25 { args[4] } else { args[2] };
                self.tally.call(helper, None, size as f64);
                0
            }
            // csum_diff
            28 => {
                self.tally.call(helper, None, args[1] as u32 as f64 + args[3] as u32 as f64);
                let mut sum = args[4] + Core::sum(memory, args[2], args[3], false)?;
                sum += Core::sum(memory, args[0], args[1], true)?;
                while sum >> 32 != 0 {
                    sum = (sum & 0xffff_ffff) + (sum >> 32);
                }
                sum
            }
            // xdp_adjust_head
            44 => {
                self.tally.call(helper, None, 0.0);
                let data = self.data.wrapping_add_signed(by);
                let room = self.data - self.meta;
                if data < self.room + room || data + LEAST > self.end {
                    return Ok(INVALID);
                }
                (self.data, self.meta) = (data, data - room);
                0
            }
            // xdp_adjust_meta
            54 => {
                self.tally.call(helper, None, 0.0);
                let meta = self.meta.wrapping_add_signed(by);
                if meta < self.room || meta > self.data || self.data - meta > MOST_META {
                    return Ok(INVALID);
                }
                self.meta = meta;
                0
            }
            // xdp_adjust_tail
            65 => {
                self.tally.call(helper, None, 0.0);
                let end = self.end.wrapping_add_signed(by);
                if end < self.data + LEAST || memory.read(end, 0).is_err() {
                    return Ok(INVALID);
                }
                if end > self.end {
                    memory.write(self.end, &vec![0; (end - self.end) as usize])?;
                }
                self.end = end;
                0
            }
            // redirect_map: nothing is behind the hook, so the flags say the verdict
            51 => {
                let map = self.map(helper, args[0])?;
                self.tally.call(helper, self.maps[map].kind, 0.0);
                if args[2] & BROADCAST != 0 { REDIRECT } else { args[2] & 3 }
            }
            // spin_lock, spin_unlock
            93 | 94 => {
                self.tally.call(helper, None, 0.0);
                0
            }
            // ringbuf_reserve
            131 => {
                self.tally.call(helper, None, 0.0);
                match u32::try_from(args[1]) {
                    Ok(size) if size <= MOST_RESERVED => {
                        memory.add(vec![0; size as usize]).address()
                    }
                    _ => 0,
                }
            }
            // ringbuf_submit, ringbuf_discard
            132 | 133 => {
                self.tally.call(helper, None, 0.0);
                0
            }
            // xdp_get_buff_len
            188 => {
                self.tally.call(helper, None, 0.0);
                self.end - self.data
            }
            // xdp_load_bytes, xdp_store_bytes
            189 | 190 => {
                self.tally.call(helper, None, args[3] as f64);
                let Some(at) = self.part(args[1], args[3]) else { return Ok(INVALID) };
                let (from, to) = if helper == 189 { (at, args[2]) } else { (args[2], at) };
                let bytes = memory.read(from, args[3] as usize)?.to_vec();
                memory.write(to, &bytes)?;
                0
            }
            _ => return Err(missing(helper, &helper_name(helper))),
        })
    }
}
