/* SPDX-License-Identifier: 0BSD
 *
 * nf_abi.h (common) - numbers of the run-time contract. Printed from crates/codegen/src/abi.rs:
 * change them there, then run `NICFORGE_BLESS=1 cargo test -p nicforge-codegen --test abi`.
 */
#ifndef NF_ABI_H
#define NF_ABI_H

/* Kinds of tables. */
enum nf_table_kind {
    NF_HASH = 0,
    NF_ARRAY = 1,
    NF_LRU = 2,
    NF_LPM = 3,
    NF_TERNARY = 4,
};

/* Inputs of a process, in front of their bytes. */
enum {
    NF_IN_PACKET = 0,
    NF_IN_MESSAGE = 1,
    NF_IN_TICK = 2,
};

/* Outputs of a process or a core, as records say them. */
enum {
    NF_OUT_SEND = 1,
    NF_OUT_STACK = 2,
    NF_OUT_HOST = 3,
    NF_OUT_MSG = 4,
    NF_OUT_DMA = 5,
    NF_OUT_DROP = 6,
    NF_OUT_LOG = 7,
    NF_OUT_TX = 8,
};

/* Fates of packets in the kernel's test run. */
enum {
    NF_FATE_NONE = 0,
    NF_FATE_SEND = 1,
    NF_FATE_STACK = 2,
    NF_FATE_DROP = 3,
    NF_FATE_HOST = 4,
    NF_FATE_FAILED = 5,
};

/* Records of an XDP program's ring. */
enum {
    NF_HOST_RECV = 1,
    NF_HOST_MSG = 2,
    NF_DMA_WRITE = 3,
    NF_LOG = 4,
    NF_NET_COPY = 5,
};

/* Offsets in struct nf_table on cores of 32 bits, for who fills tables before a start. */
enum {
    NF_TABLE_AT_INDEX = 32,
    NF_TABLE_AT_ENTRIES = 36,
    NF_TABLE_AT_FREE = 40,
    NF_TABLE_AT_ZEROED = 44,
    NF_TABLE_AT_CLOCK = 48,
    NF_TABLE_AT_USES = 56,
    NF_TABLE_AT_OF_LENGTH = 60,
    NF_TABLE_AT_ORDER = 64,
    NF_TABLE_AT_ORDERED = 68,
    NF_TABLE_AT_REFUSED = 72,
    NF_TABLE_AT_EVICTED = 80,
    NF_TABLE_AT_END = 120,
};

/* Offsets in struct nf_entry; the key is behind it. */
enum {
    NF_ENTRY_AT_DETAIL = 8,
    NF_ENTRY_AT_LIVE = 12,
    NF_ENTRY_AT_KEY = 16,
};

/* Kinds of what leaves a design: commands to the deparser, and its records, 8 higher. */
enum {
    NF_LEFT_SEND = 0,
    NF_LEFT_STACK = 1,
    NF_LEFT_HOST_PACKET = 2,
    NF_LEFT_HOST_MESSAGE = 3,
    NF_LEFT_DMA_WRITE = 4,
    NF_LEFT_LOG = 5,
    NF_LEFT_DROP = 6,
    NF_LEFT_END = 7,
    NF_LEFT_STORE = 8,
};

#endif
