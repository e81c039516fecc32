//! Names in generated C: the user's where possible, unique, and never a word that C or the runtime
//! uses.

use std::collections::HashMap;

use nicforge_ir::{ConstId, Program};

/// Words a generated name must not be. The runtime's own names start with `nf_` or `NF_`, those
/// that the kernel gives programs with `bpf_`.
const RESERVED: &[&str] = &[
    "auto", "bool", "break", "case", "char", "const", "continue", "ctx", "data", "default", "do",
    "double", "else", "end", "enum", "extern", "false", "float", "for", "goto", "if", "inline",
    "int", "long", "main", "register", "restrict", "return", "s16", "s32", "s64", "s8", "short",
    "signed", "sizeof", "static", "struct", "switch", "true", "typedef", "u16", "u32", "u64", "u8",
    "union", "unsigned", "verdict", "void", "volatile", "while", "asm", "typeof", "cursor",
];

/// Macros without parameters in headers of the C library, Linux and DPDK, as `clang -dM -E` says.
/// Others begin as if they had capital letters only ([`is_like_a_macro`]).
const MACROS: &[&str] = &[
    "errno",
    "ip6_flow",
    "ip6_hlim",
    "ip6_hops",
    "ip6_nxt",
    "ip6_plen",
    "ip6_vfc",
    "linux",
    "rte_errno",
    "rte_intr_conf",
    "s6_addr",
    "s6_addr16",
    "s6_addr32",
    "sa_handler",
    "sa_sigaction",
    "sched_priority",
    "si_addr",
    "si_addr_lsb",
    "si_arch",
    "si_band",
    "si_call_addr",
    "si_fd",
    "si_int",
    "si_lower",
    "si_overrun",
    "si_pid",
    "si_pkey",
    "si_ptr",
    "si_status",
    "si_stime",
    "si_syscall",
    "si_timerid",
    "si_uid",
    "si_upper",
    "si_utime",
    "si_value",
    "sigev_notify_attributes",
    "sigev_notify_function",
    "st_atime",
    "st_ctime",
    "st_mtime",
    "static_assert",
    "stderr",
    "stdin",
    "stdout",
    "unix",
];

/// Hands out names that differ from each other.
#[derive(Clone, Debug, Default)]
pub struct Names {
    /// Taken names, each with the first number that may be free behind it.
    taken: HashMap<String, u32>,
}

impl Names {
    /// A set that knows the reserved words and `taken`.
    pub fn new(taken: impl IntoIterator<Item = String>) -> Names {
        let taken = RESERVED.iter().chain(MACROS).map(|s| s.to_string()).chain(taken);
        Names { taken: taken.map(|name| (name, 2)).collect() }
    }

    /// Names for a program's constant arrays. They stand outside functions, where headers have
    /// names of their own.
    pub fn of_constants(&mut self, program: &Program) -> HashMap<ConstId, String> {
        let consts = program.consts.iter();
        consts.map(|(id, c)| (id, self.fresh(&format!("const_{}", c.name)))).collect()
    }

    /// `wanted` made a C identifier, with a number behind it if it is taken.
    pub fn fresh(&mut self, wanted: &str) -> String {
        let mut base: String = wanted
            .chars()
            .map(|c| if c.is_ascii_alphanumeric() || c == '_' { c } else { '_' })
            .collect();
        if base.is_empty() || base.starts_with(|c: char| c.is_ascii_digit()) {
            base.insert(0, 'v');
        }
        if ["nf_", "NF_", "bpf_"].iter().any(|own| base.starts_with(own)) {
            base.insert_str(0, "u_");
        }
        if is_like_a_macro(&base) {
            base.push('_');
        }
        let mut name = base.clone();
        if let Some(mut number) = self.taken.get(&base).copied() {
            while self.taken.contains_key(&name) {
                name = format!("{base}_{number}");
                number += 1;
            }
            self.taken.insert(base, number);
        }
        self.taken.insert(name.clone(), 2);
        name
    }
}

/// True for `EOF`, `E2BIG`, `AF_DECnet`, `L_tmpnam`, `PRIu64`.
fn is_like_a_macro(name: &str) -> bool {
    let mut letters = name.chars();
    letters.next().is_some_and(|first| first.is_ascii_uppercase())
        && letters.next().is_some_and(|second| !second.is_ascii_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_legal_and_unique() {
        let mut names = Names::new(["eth".to_string()]);
        assert_eq!(names.fresh("eth_3"), "eth_3");
        assert_eq!([0; 3].map(|_| names.fresh("eth")), ["eth_2", "eth_4", "eth_5"]);
        assert_eq!(names.fresh("eth_3"), "eth_3_2");
        assert_eq!(names.fresh("end"), "end_2");
        assert_eq!(names.fresh("nf_tmp"), "u_nf_tmp");
        assert_eq!(names.fresh("bpf_redirect"), "u_bpf_redirect");
        assert_eq!(names.fresh("3-way"), "v3_way");
        assert_eq!(names.fresh(""), "v");
        assert_eq!(names.fresh("errno"), "errno_2");
        assert_eq!(names.fresh("EOF"), "EOF_");
        assert_eq!(names.fresh("AF_DECnet"), "AF_DECnet_");
        assert_eq!(names.fresh("Left"), "Left");
    }
}
