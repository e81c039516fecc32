// An MPI datatype as handlers read it: a tree whose leaves are runs of bytes. All places are bytes
// from the map's start, so a map can lie anywhere. Sizes are of packed data, strides and
// displacements of the unpacked buffer.
#pragma once

#include <stdint.h>

#define TYPEMAP_MAGIC 0x70616d74

enum typemap_kind {
    TYPEMAP_RUN,  // `size` bytes that lie together
    TYPEMAP_LOOP, // `count` times the child, `stride` apart
    TYPEMAP_LIST, // `count` entries
};

struct typemap_node {
    uint32_t kind;
    uint32_t size;
    uint32_t count;
    int32_t stride;
    uint32_t child; // of a loop: its node; of a list: its entries
};

// In the order of packed data.
struct typemap_entry {
    uint32_t start; // packed bytes before this entry
    int32_t displacement;
    uint32_t child;
};

struct typemap {
    uint32_t magic;
    uint32_t bytes;  // of the whole map
    uint32_t root;   // node of a whole message
    uint32_t buffer; // bytes of host memory for each message
    uint32_t first;  // number of the first message
    uint32_t count;  // of messages
};
