//! Numbers that generated programs, runtimes in C and whoever reads what they write have in common.
//!
//! They stand here once. [`header`] prints them in C for `runtime/common/nf_abi.h`; a test compares
//! the two. The numbers of table kinds are [`TableKind::number`].

use std::fmt::Write as _;

use nicforge_ir::TableKind;

macro_rules! numbers {
    ($($(#[doc = $doc:literal])* $name:ident: $ty:ty, $prefix:literal {
        $($(#[doc = $item:literal])* $constant:ident = $number:literal,)*
    })*) => {
        $($(#[doc = $doc])* pub mod $name {
            $($(#[doc = $item])* pub const $constant: $ty = $number;)*
        })*

        /// Groups of numbers: what they are, what their names in C begin with, and names with their
        /// numbers.
        const GROUPS: &[(&str, &str, &[(&str, u32)])] = &[
            $((concat!($($doc),*), $prefix,
               &[$((stringify!($constant), $number)),*])),*
        ];
    };
}

numbers! {
    /// Inputs of a process, in front of their bytes.
    input: u32, "NF_IN_" {
        PACKET = 0,
        MESSAGE = 1,
        TICK = 2,
    }
    /// Outputs of a process or a core, as records say them.
    output: u32, "NF_OUT_" {
        SEND = 1,
        STACK = 2,
        HOST = 3,
        MSG = 4,
        DMA = 5,
        DROP = 6,
        LOG = 7,
        /// A frame that has left by its port.
        TX = 8,
    }
    /// Fates of packets in the kernel's test run.
    fate: u32, "NF_FATE_" {
        NONE = 0,
        SEND = 1,
        STACK = 2,
        DROP = 3,
        HOST = 4,
        FAILED = 5,
    }
    /// Records of an XDP program's ring.
    record: u32, "NF_" {
        HOST_RECV = 1,
        HOST_MSG = 2,
        DMA_WRITE = 3,
        LOG = 4,
        NET_COPY = 5,
    }
    /// Offsets in struct nf_table on cores of 32 bits, for who fills tables before a start.
    table: u32, "NF_TABLE_AT_" {
        INDEX = 32,
        ENTRIES = 36,
        FREE = 40,
        ZEROED = 44,
        CLOCK = 48,
        USES = 56,
        OF_LENGTH = 60,
        ORDER = 64,
        ORDERED = 68,
        REFUSED = 72,
        EVICTED = 80,
        END = 120,
    }
    /// Offsets in struct nf_entry; the key is behind it.
    entry: u32, "NF_ENTRY_AT_" {
        DETAIL = 8,
        LIVE = 12,
        KEY = 16,
    }
    /// Kinds of what leaves a design: commands to the deparser, and its records, 8 higher.
    left: u64, "NF_LEFT_" {
        SEND = 0,
        STACK = 1,
        HOST_PACKET = 2,
        HOST_MESSAGE = 3,
        DMA_WRITE = 4,
        LOG = 5,
        DROP = 6,
        /// The handler has ended.
        END = 7,
        /// Bytes go into a byte string; only in pipes, and not in records.
        STORE = 8,
    }
}

/// The numbers as a header in C.
pub fn header() -> String {
    let mut text = "/* SPDX-License-Identifier: 0BSD
 *
 * nf_abi.h (common) - numbers of the run-time contract. Printed from crates/codegen/src/abi.rs:
 * change them there, then run `NICFORGE_BLESS=1 cargo test -p nicforge-codegen --test abi`.
 */
#ifndef NF_ABI_H
#define NF_ABI_H
"
    .to_string();
    let kinds: Vec<(String, u32)> =
        TableKind::ALL.iter().map(|kind| (kind.name().to_uppercase(), kind.number())).collect();
    let kinds: Vec<(&str, u32)> =
        kinds.iter().map(|(name, number)| (name.as_str(), *number)).collect();
    let mut group = |doc: &str, tag: &str, prefix: &str, items: &[(&str, u32)]| {
        let _ = writeln!(text, "\n/*{doc} */\nenum{tag} {{");
        for (item, number) in items {
            let _ = writeln!(text, "    {prefix}{item} = {number},");
        }
        text.push_str("};\n");
    };
    group(" Kinds of tables.", " nf_table_kind", "NF_", &kinds);
    for (doc, prefix, items) in GROUPS {
        group(doc, "", prefix, items);
    }
    text.push_str("\n#endif\n");
    text
}
