//! What surrounds an interpreted program: one packet, helpers, and the maps of the loaded object.
//!
//! A program holds pointers into maps and writes through them. Here such a pointer is to a copy of
//! the value in the interpreter's memory. Every copy is remembered with its key: a second lookup of
//! the same entry gives the same copy, and copies that changed go back to the kernel before
//! anything else is asked of the kernel, and at the end of the run. Once an entry is replaced or
//! deleted its copy is let go, as the kernel lets go of the old element. With one packet at a time
//! nobody else sees the maps meanwhile, so this is exactly what the kernel does.

use std::collections::HashMap;

use nicforge_isa::ebpf::{Fault, Host, Memory, RegionId};

use crate::maps::Map;

/// Bytes in front of a frame that a program may take.
const HEADROOM: usize = 256;
/// Where a frame must end: a page without what the kernel keeps behind the frame (`struct
/// skb_shared_info`).
const LARGEST: usize = 4096 - 320;
/// Marks the number that stands for a map; no memory is at such addresses.
const MAP_TAG: u64 = 1 << 62;
/// What `bpf_redirect_map` returns for a port that has an interface.
const XDP_REDIRECT: u64 = 4;

/// The outside of one run.
pub struct Outside {
    pub time_ns: u64,
    pub ifindex: u32,
    packet: RegionId,
    start: usize,
    end: usize,
    /// Port of the last redirect.
    pub port: Option<u64>,
    maps: HashMap<i32, Map>,
    held: Vec<Held>,
}

/// A copy of a map value that the program has a pointer to.
struct Held {
    fd: i32,
    key: Vec<u8>,
    region: RegionId,
    known: Vec<u8>,
}

/// `lddw` sources (include/uapi/linux/bpf.h).
const PSEUDO_MAP_FD: u8 = 1;
const PSEUDO_MAP_VALUE: u8 = 2;

impl Outside {
    /// For a frame that came in by an interface.
    pub fn new(memory: &mut Memory, frame: &[u8], ifindex: u32, time_ns: u64) -> Outside {
        let mut bytes = vec![0; HEADROOM];
        bytes.extend_from_slice(frame);
        let (start, end) = (HEADROOM, bytes.len());
        let packet = memory.add(bytes);
        let (maps, held) = (HashMap::new(), Vec::new());
        Outside { time_ns, ifindex, packet, start, end, port: None, maps, held }
    }

    /// The frame as it is now.
    pub fn frame<'a>(&self, memory: &'a Memory) -> &'a [u8] {
        &memory.bytes(self.packet)[self.start..self.end]
    }

    /// Writes all copies that changed back to the kernel.
    pub fn flush(&mut self, memory: &Memory) -> Result<(), Fault> {
        for held in &mut self.held {
            let now = memory.bytes(held.region);
            if now == held.known {
                continue;
            }
            let status = self.maps[&held.fd].update(&held.key, now, 0);
            if status != 0 {
                return Err(failed(2, format!("writing an entry back gives {status}")));
            }
            held.known = now.to_vec();
        }
        Ok(())
    }

    fn map(&mut self, fd: i32) -> Result<Map, Fault> {
        if let Some(map) = self.maps.get(&fd) {
            return Ok(*map);
        }
        let map = Map::of(fd).map_err(|error| failed(1, format!("descriptor {fd}: {error}")))?;
        self.maps.insert(fd, map);
        Ok(map)
    }

    /// The map and key that helpers get in `r1` and `r2`.
    fn key(&mut self, memory: &Memory, args: &[u64; 5]) -> Result<(i32, Map, Vec<u8>), Fault> {
        let fd = (args[0] & !MAP_TAG) as i32;
        let map = self.map(fd)?;
        let key = memory.read(args[1], map.key_size)?.to_vec();
        Ok((fd, map, key))
    }

    fn lookup(
        &mut self,
        memory: &mut Memory,
        fd: i32,
        map: Map,
        key: Vec<u8>,
    ) -> Result<u64, Fault> {
        if let Some(held) = self.held.iter().find(|held| held.fd == fd && held.key == key) {
            return Ok(held.region.address());
        }
        let found = map.lookup(&key).map_err(|error| failed(1, error.to_string()))?;
        let Some(value) = found else { return Ok(0) };
        let region = memory.add(value.clone());
        self.held.push(Held { fd, key, region, known: value });
        Ok(region.address())
    }

    fn update(&mut self, memory: &mut Memory, args: &[u64; 5]) -> Result<u64, Fault> {
        let (fd, map, key) = self.key(memory, args)?;
        let value = memory.read(args[2], map.value_size)?.to_vec();
        self.flush(memory)?;
        let status = map.update(&key, &value, args[3]);
        if status == 0 {
            let at = self.held.iter().position(|held| held.fd == fd && held.key == key);
            match at {
                // The elements of an array stay where they are.
                Some(at) if map.is_array() => {
                    memory.bytes_mut(self.held[at].region).copy_from_slice(&value);
                    self.held[at].known = value;
                }
                Some(at) => {
                    self.held.remove(at);
                }
                None => {}
            }
        }
        Ok(status as i64 as u64)
    }

    fn delete(&mut self, memory: &mut Memory, args: &[u64; 5]) -> Result<u64, Fault> {
        let (fd, map, key) = self.key(memory, args)?;
        self.flush(memory)?;
        let status = map.delete(&key);
        self.held.retain(|held| held.fd != fd || held.key != key);
        Ok(status as i64 as u64)
    }

    fn adjust_head(&mut self, by: i32) -> u64 {
        let start = self.start as i64 + i64::from(by);
        // At least an Ethernet header stays.
        if start < 0 || start + 14 > self.end as i64 {
            return -i64::from(libc::EINVAL) as u64;
        }
        self.start = start as usize;
        0
    }

    fn adjust_tail(&mut self, memory: &mut Memory, by: i32) -> u64 {
        let end = self.end as i64 + i64::from(by);
        if end < self.start as i64 + 14 || end > LARGEST as i64 {
            return -i64::from(libc::EINVAL) as u64;
        }
        // The kernel clears what a frame grows by.
        let bytes = memory.bytes_mut(self.packet);
        bytes.truncate(end as usize);
        bytes.resize(end as usize, 0);
        self.end = end as usize;
        0
    }

    /// The frame's bytes that a helper copies: `None` if it ends before.
    fn part(&self, off: u64, size: usize) -> Option<std::ops::Range<usize>> {
        let start = self.start.checked_add(off as u32 as usize)?;
        let stop = start.checked_add(size)?;
        (stop <= self.end).then_some(start..stop)
    }

    fn load_bytes(&self, memory: &mut Memory, args: &[u64; 5]) -> Result<u64, Fault> {
        let size = args[3] as u32 as usize;
        let Some(part) = self.part(args[1], size) else {
            return Ok(-i64::from(libc::EINVAL) as u64);
        };
        let bytes = memory.bytes(self.packet)[part].to_vec();
        memory.write(args[2], &bytes)?;
        Ok(0)
    }

    fn store_bytes(&self, memory: &mut Memory, args: &[u64; 5]) -> Result<u64, Fault> {
        let size = args[3] as u32 as usize;
        let bytes = memory.read(args[2], size)?.to_vec();
        let Some(part) = self.part(args[1], size) else {
            return Ok(-i64::from(libc::EINVAL) as u64);
        };
        memory.bytes_mut(self.packet)[part].copy_from_slice(&bytes);
        Ok(0)
    }
}

fn failed(helper: i32, message: String) -> Fault {
    Fault::Helper { helper, message }
}

impl Host for Outside {
    fn address(
        &mut self,
        memory: &mut Memory,
        src: u8,
        imm: i32,
        next_imm: i32,
    ) -> Result<u64, Fault> {
        match src {
            PSEUDO_MAP_FD => Ok(MAP_TAG | imm as u32 as u64),
            // Global data is the only entry of an array.
            PSEUDO_MAP_VALUE => {
                let map = self.map(imm)?;
                Ok(self.lookup(memory, imm, map, vec![0; map.key_size])? + next_imm as u32 as u64)
            }
            other => Err(failed(0, format!("`lddw` with source {other} is not known here"))),
        }
    }

    fn context(&mut self, _: &mut Memory, offset: u64, size: usize) -> Result<u64, Fault> {
        // struct xdp_md: data, data_end, data_meta, ingress_ifindex.
        match (offset, size) {
            (0, 4) => Ok(self.packet.address() + self.start as u64),
            (4, 4) => Ok(self.packet.address() + self.end as u64),
            (12, 4) => Ok(self.ifindex.into()),
            _ => Err(failed(
                0,
                format!("context bytes {offset} to {} are not known here", offset + size as u64),
            )),
        }
    }

    fn call(&mut self, memory: &mut Memory, helper: i32, args: [u64; 5]) -> Result<u64, Fault> {
        match helper {
            1 => {
                let (fd, map, key) = self.key(memory, &args)?;
                self.flush(memory)?;
                self.lookup(memory, fd, map, key)
            }
            2 => self.update(memory, &args),
            3 => self.delete(memory, &args),
            5 => Ok(self.time_ns),
            44 => Ok(self.adjust_head(args[1] as i32)),
            51 => {
                self.port = Some(args[1]);
                Ok(XDP_REDIRECT)
            }
            65 => Ok(self.adjust_tail(memory, args[1] as i32)),
            189 => self.load_bytes(memory, &args),
            190 => self.store_bytes(memory, &args),
            _ => Err(failed(helper, "not known here".to_string())),
        }
    }
}
