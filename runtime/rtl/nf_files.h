/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * Files between `crates/run/src/rtl`, which defines them, and the driver of a simulated design.
 * Numbers are little-endian.
 */
#ifndef NF_FILES_H
#define NF_FILES_H

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "nf_abi.h"

/* Ends the driver with a message for whoever started it. */
[[noreturn]] inline void fail(const std::string &why)
{
    fprintf(stderr, "%s\n", why.c_str());
    exit(1);
}

inline std::vector<uint8_t> read_file(const char *path)
{
    FILE *file = fopen(path, "rb");
    if (!file)
        fail(std::string(path) + ": cannot be read");
    std::vector<uint8_t> bytes;
    uint8_t block[65536];
    size_t n;
    while ((n = fread(block, 1, sizeof(block), file)) > 0)
        bytes.insert(bytes.end(), block, block + n);
    fclose(file);
    return bytes;
}

/* Takes numbers and bytes off the front of a file that is in memory. */
struct Reader {
    const uint8_t *at, *end;
    explicit Reader(const std::vector<uint8_t> &file)
        : at(file.data()), end(file.data() + file.size())
    {
    }
    bool more() const { return at < end; }
    const uint8_t *take(size_t size)
    {
        if (size > (size_t)(end - at))
            fail("a file ends too early");
        const uint8_t *now = at;
        at += size;
        return now;
    }
    uint32_t u32()
    {
        uint32_t value;
        memcpy(&value, take(4), 4);
        return value;
    }
    uint64_t u64()
    {
        uint64_t value;
        memcpy(&value, take(8), 8);
        return value;
    }
};

struct Writer {
    std::vector<uint8_t> bytes;
    void raw(const void *from, size_t size)
    {
        bytes.insert(bytes.end(), (const uint8_t *)from, (const uint8_t *)from + size);
    }
    void u32(uint32_t value) { raw(&value, 4); }
    void u64(uint64_t value) { raw(&value, 8); }
    void save(const char *path)
    {
        FILE *file = fopen(path, "wb");
        if (!file || fwrite(bytes.data(), 1, bytes.size(), file) != bytes.size() ||
            fclose(file) != 0)
            fail(std::string(path) + ": cannot be written");
    }
};

/* One event from outside. */
struct Event {
    uint64_t time, seed;
    uint32_t host, port, length; /* host: 1 a message of the host side, 2 a frame that is marked as
                                    bad, 3 a tick of timer `port`, 4 a tick that the
                                    design makes itself */
    const uint8_t *bytes;
    bool dropped() const
    {
        return host == 2 || (host == 0 && (length < NF_SHORTEST || length > NF_LONGEST));
    }
};

/* The events of a file, which must outlive them. */
inline std::vector<Event> read_events(const std::vector<uint8_t> &file)
{
    std::vector<Event> events;
    Reader in(file);
    while (in.more()) {
        Event event;
        event.time = in.u64();
        event.seed = in.u64();
        event.host = in.u32();
        event.port = in.u32();
        event.length = in.u32();
        in.u32();
        event.bytes = in.take(event.length);
        events.push_back(event);
    }
    return events;
}

/* A table as the host sees it; sizes in bytes. */
struct Table {
    uint32_t kind, capacity, key, value, extra, lines;
    /* Where an event changes several entries in turn: cycles from the first change to the last. */
    uint32_t span;
};

/* What a design is like: its tables and the number of its counters. */
struct Shape {
    std::vector<Table> tables;
    uint32_t counters;
    explicit Shape(const std::vector<uint8_t> &file)
    {
        Reader in(file);
        counters = in.u32();
        while (in.more()) {
            Table table;
            table.kind = in.u32();
            table.capacity = in.u32();
            table.key = in.u32();
            table.value = in.u32();
            table.extra = in.u32();
            table.lines = in.u32();
            table.span = in.u32();
            tables.push_back(table);
        }
    }
};

#endif
