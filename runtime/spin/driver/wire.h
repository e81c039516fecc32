// The simulator is a process of its own, `nicforge spin serve`, at the other end of a socket. Each
// message is a header and `size` bytes. Requests have no answers, but two: memory reads, and
// NF_SIM_RUN, which is answered with events up to NF_SIM_DONE. The simulation stands still after
// each event until NF_SIM_CONTINUE; requests made by a callback come before it. Server: crates/cli,
// spin serve.
#pragma once

#include <stdint.h>

enum nf_sim_kind {
    // Requests.
    NF_SIM_START = 1, // data: struct nf_sim_start
    NF_SIM_IMAGE,     // data: ELF
    NF_SIM_PACKET,    // data: struct nf_sim_packet, spin_ec_t as struct nf_sim_context, the packet
    NF_SIM_END,       // no more packets
    NF_SIM_RUN,       // value: cycles, or 0: to the end; tag: events that are wanted
    NF_SIM_WRITE,     // value: NIC address; tag: told at the end; data
    NF_SIM_READ,      // value: address << 32 | bytes; tag
    NF_SIM_CONTINUE,  // data: for NF_SIM_HOST_READ
    NF_SIM_STOP,      // answered by NF_SIM_DONE with statistics as text
    NF_SIM_PRIORITY,  // value: context, in the order of first packets; tag: priority
    // Events.
    NF_SIM_OUT = 64,   // data: the frame
    NF_SIM_FEEDBACK,   // tag: the packet's; data: three times, ps
    NF_SIM_HOST_WRITE, // value: address; data
    NF_SIM_HOST_READ,  // value: address; tag: bytes
    NF_SIM_WRITTEN,    // tag
    NF_SIM_READ_DONE,  // tag; data
    NF_SIM_DONE,       // value: 1 if there is nothing left to do
    NF_SIM_FAILED,     // data: why
    NF_SIM_TEXT,       // data: what handlers print, and their faults
};

// Events that somebody wants to hear of, bits.
enum nf_sim_wanted {
    NF_SIM_WANT_OUT = 1,
    NF_SIM_WANT_FEEDBACK = 2,
    NF_SIM_WANT_HOST_WRITE = 4,
    NF_SIM_WANT_HOST_READ = 8
};

struct nf_sim_header {
    uint32_t kind;
    uint32_t size;
    uint64_t value;
    uint64_t tag;
};

struct nf_sim_start {
    uint32_t clusters;
    uint32_t pcie_l;
    double network_g; // ns a byte, 0: no limit
    double pcie_g;
};

struct nf_sim_packet {
    uint32_t message;
    uint32_t l1_bytes;
    uint32_t last;
    uint32_t wait_cycles;
};

struct nf_sim_context {
    uint32_t handler_mem, handler_mem_size;
    uint64_t host_mem;
    uint32_t host_mem_size;
    uint32_t handlers[3];
    uint32_t scratchpads[4], scratchpad_sizes[4];
    uint32_t unused;
};
