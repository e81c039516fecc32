//! The kernel's maps by system call: what map helpers of an interpreted program do.

use std::io;

use libbpf_rs::libbpf_sys;

/// A map of a loaded object.
#[derive(Clone, Copy, Debug)]
pub struct Map {
    fd: i32,
    pub kind: u32,
    pub key_size: usize,
    pub value_size: usize,
    /// CPUs that have a value of their own, else 1.
    cpus: usize,
}

impl Map {
    /// The map behind a descriptor of this process.
    pub fn of(fd: i32) -> io::Result<Map> {
        // SAFETY: all-zero is a valid value of this plain struct.
        let mut info: libbpf_sys::bpf_map_info = unsafe { std::mem::zeroed() };
        let mut size = size_of_val(&info) as u32;
        // SAFETY: the kernel writes at most `size` bytes.
        check(unsafe { libbpf_sys::bpf_map_get_info_by_fd(fd, &mut info, &mut size) })?;
        let per_cpu = matches!(
            info.type_,
            libbpf_sys::BPF_MAP_TYPE_PERCPU_ARRAY
                | libbpf_sys::BPF_MAP_TYPE_PERCPU_HASH
                | libbpf_sys::BPF_MAP_TYPE_LRU_PERCPU_HASH
        );
        let cpus =
            if per_cpu { libbpf_rs::num_possible_cpus().map_err(io::Error::other)? } else { 1 };
        Ok(Map {
            fd,
            kind: info.type_,
            key_size: info.key_size as usize,
            value_size: info.value_size as usize,
            cpus,
        })
    }

    /// True if entries are never created or deleted.
    pub fn is_array(&self) -> bool {
        matches!(self.kind, libbpf_sys::BPF_MAP_TYPE_ARRAY | libbpf_sys::BPF_MAP_TYPE_PERCPU_ARRAY)
    }

    /// Bytes of a value, of all CPUs, as the system call exchanges them.
    fn exchanged(&self) -> usize {
        if self.cpus == 1 {
            self.value_size
        } else {
            self.value_size.next_multiple_of(8) * self.cpus
        }
    }

    /// The value of a key, of the first CPU.
    pub fn lookup(&self, key: &[u8]) -> io::Result<Option<Vec<u8>>> {
        let mut value = vec![0; self.exchanged()];
        // SAFETY: key and value have the sizes that the kernel knows for this map.
        let status = unsafe {
            libbpf_sys::bpf_map_lookup_elem(self.fd, key.as_ptr().cast(), value.as_mut_ptr().cast())
        };
        if status == -libc::ENOENT {
            return Ok(None);
        }
        check(status)?;
        value.truncate(self.value_size);
        Ok(Some(value))
    }

    /// Updates an entry; gives the status that the helper gives.
    pub fn update(&self, key: &[u8], value: &[u8], flags: u64) -> i32 {
        let mut whole = vec![0; self.exchanged()];
        whole[..value.len()].copy_from_slice(value);
        // SAFETY: as above.
        unsafe {
            libbpf_sys::bpf_map_update_elem(
                self.fd,
                key.as_ptr().cast(),
                whole.as_ptr().cast(),
                flags,
            )
        }
    }

    /// Deletes an entry; gives the status that the helper gives.
    pub fn delete(&self, key: &[u8]) -> i32 {
        // SAFETY: as above.
        unsafe { libbpf_sys::bpf_map_delete_elem(self.fd, key.as_ptr().cast()) }
    }
}

fn check(status: i32) -> io::Result<()> {
    if status < 0 { Err(io::Error::from_raw_os_error(-status)) } else { Ok(()) }
}
