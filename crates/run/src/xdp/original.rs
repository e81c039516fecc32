//! A program of somebody else's object in the kernel's test run: what a lifted program is compared
//! with.

use std::os::fd::AsFd;

use libbpf_rs::AsRawLibbpf;
use libbpf_rs::{MapCore, MapFlags, MapHandle, MapType, Object, ProgramType, libbpf_sys};

use super::error::XdpError;
use super::load::{load, open};
use super::test_run::run_once;
use crate::pin::Pinned;

/// Room for a packet that grew, in the kernel's test run.
const LARGEST_OUT: usize = 2 * 4096;

/// An object of which one program can run.
pub struct Original {
    object: Object,
    function: String,
    /// Per-CPU maps are read where the program ran.
    cpu: usize,
    _pinned: Pinned,
}

/// Keys and values of a map, sorted by key; of per-CPU maps those of the CPU the program runs on.
pub type Entries = Vec<(Vec<u8>, Vec<u8>)>;

impl Original {
    /// Loads an object with only one program of it.
    ///
    /// # Errors
    /// The kernel or libbpf refuses.
    pub fn load(bytes: &[u8], function: &str) -> Result<Original, XdpError> {
        let mut opened = open(bytes)?;
        for mut program in opened.progs_mut() {
            let own = program.name().to_str() == Some(function);
            program.set_autoload(own);
            program.set_prog_type(ProgramType::Xdp);
        }
        for map in opened.maps_mut() {
            // SAFETY: a map of an object that is open; no path means that it is not pinned.
            unsafe {
                let map = map.as_libbpf_object().as_ptr();
                libbpf_sys::bpf_map__set_pin_path(map, std::ptr::null());
            }
        }
        let pinned = Pinned::to(0);
        let object = load(opened)?;
        Ok(Original { object, function: function.to_string(), cpu: 0, _pinned: pinned })
    }

    /// Runs the program on a frame: its verdict, and the frame afterwards.
    ///
    /// # Errors
    /// The kernel does not run it.
    pub fn run(&self, frame: &[u8]) -> Result<(u32, Vec<u8>), XdpError> {
        let own = self.object.progs().find(|p| p.name().to_str() == Some(&self.function));
        let program = own.ok_or_else(|| {
            XdpError::Contract(format!("there is no program `{}`", self.function))
        })?;
        let mut out = vec![0; LARGEST_OUT];
        let run = run_once(program.as_fd(), frame, Some(&mut out), 1)?;
        out.truncate(run.length);
        Ok((run.verdict, out))
    }

    fn map(&self, name: &str) -> Result<MapHandle, XdpError> {
        // libbpf puts the object's name before those of data sections.
        let own = |found: &str| found == name || name.starts_with('.') && found.ends_with(name);
        let map = self.object.maps().find(|map| map.name().to_str().is_some_and(own));
        let map = map.ok_or_else(|| XdpError::Contract(format!("there is no map `{name}`")))?;
        MapHandle::try_from(&map).map_err(|e| XdpError::Contract(format!("map `{name}`: {e}")))
    }

    /// Sets an entry, for every CPU where there are several values.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn set(&self, name: &str, key: &[u8], value: &[u8]) -> Result<(), XdpError> {
        let map = self.map(name)?;
        let done = if map.map_type().is_percpu() {
            let cpus = libbpf_rs::num_possible_cpus().unwrap_or(1);
            map.update_percpu(key, &vec![value.to_vec(); cpus], MapFlags::ANY)
        } else {
            map.update(key, value, MapFlags::ANY)
        };
        done.map_err(|e| XdpError::Contract(format!("map `{name}`: {e}")))
    }

    /// All entries; of arrays those that are not all zero. None of maps that cannot be read.
    ///
    /// # Errors
    /// There is no such map.
    pub fn entries(&self, name: &str) -> Result<Option<Entries>, XdpError> {
        let map = self.map(name)?;
        let array = matches!(map.map_type(), MapType::Array | MapType::PercpuArray);
        let readable = array
            || matches!(
                map.map_type(),
                MapType::Hash | MapType::PercpuHash | MapType::LruHash | MapType::LruPercpuHash
            );
        if !readable {
            return Ok(None);
        }
        let mut found = Entries::new();
        for key in map.keys() {
            let value = if map.map_type().is_percpu() {
                let all = map.lookup_percpu(&key, MapFlags::ANY).ok().flatten();
                all.and_then(|all| all.into_iter().nth(self.cpu))
            } else {
                map.lookup(&key, MapFlags::ANY).ok().flatten()
            };
            let Some(value) = value else { continue };
            if !array || value.iter().any(|byte| *byte != 0) {
                found.push((key, value));
            }
        }
        found.sort();
        Ok(Some(found))
    }
}
