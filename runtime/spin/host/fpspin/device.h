// Calls of the library to the NIC: a request on a stream socket, and its answer. Numbers are in
// this computer's order, since both ends are on it. Server: crates/spin, device.
#pragma once

#include <stdint.h>

enum nf_spin_op {
    NF_SPIN_OPEN = 1,   // context, argument = bytes of host memory; answer: the memory as a file
                        // descriptor, its NIC-side address
    NF_SPIN_LOAD = 2,   // context, data = the ELF image; answer: struct nf_spin_loaded
    NF_SPIN_UNLOAD = 3, // context
    NF_SPIN_RULES = 4,  // context, data = a ruleset; without data: no packet matches
    NF_SPIN_WRITE = 5,  // argument = NIC address, data
    NF_SPIN_READ = 6,   // argument = NIC address << 32 | bytes; answer: data
};

struct nf_spin_request {
    uint32_t op;
    uint32_t context;
    uint64_t argument;
    uint64_t size; // of the data that follows
};

struct nf_spin_answer {
    uint32_t status; // 0, or an errno; then the data is a message
    uint32_t unused;
    uint64_t value;
    uint64_t size;
};

struct nf_spin_loaded {
    uint32_t host_data;
    uint32_t handlers[3]; // 0: there is none
    uint32_t handler_mem;
    uint32_t handler_mem_size;
};
