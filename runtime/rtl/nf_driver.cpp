/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * nf_driver: runs a generated design under Verilator. It fills the tables through AXI4-Lite, plays events into the stream, takes
 * what comes out, reads the tables and counters, and writes everything down for `crates/run/src/rtl`, which defines the files.
 *
 *   driver --events FILE --fill FILE --shape FILE --outputs FILE --tables FILE --stats FILE [--seed N] [--trace FILE]
 *
 * A seed other than 0 makes streams wait at random: bursts of up to 64 cycles in which a side is ready always, mostly, seldom or
 * never. What an event led to is known from the design's record, which says in order what was sent; the streams have the bytes.
 */
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <string>
#include <vector>

#include "Vnf_top.h"
#include "verilated.h"
#if NF_TRACE
#include "verilated_fst_c.h"
#endif

namespace {

const uint64_t kStandstill = 4000000; /* cycles without any progress after which a design is given up */

[[noreturn]] void fail(const std::string &why)
{
    fprintf(stderr, "%s\n", why.c_str());
    exit(1);
}

std::vector<uint8_t> read_file(const char *path)
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

struct Reader {
    const uint8_t *at, *end;
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
        if (!file || fwrite(bytes.data(), 1, bytes.size(), file) != bytes.size() || fclose(file) != 0)
            fail(std::string(path) + ": cannot be written");
    }
};

/* One event from outside. */
struct Event {
    uint64_t time, seed;
    uint32_t host, port, length; /* host: 1 a message of the host side, 2 a frame that is marked as bad */
    const uint8_t *bytes;
    bool dropped() const { return host == 2 || (host == 0 && (length < NF_SHORTEST || length > NF_LONGEST)); }
};

/* A table as the host sees it; sizes in bytes. */
struct Table {
    uint32_t kind, capacity, key, value, extra, lines;
};
enum Kind { HASH = 0, ARRAY = 1, LRU = 2, LPM = 3, TERNARY = 4 };
enum Op { UPDATE = 1, WRITE = 4, PEEK = 5, NEXT = 6, READ_BYTES = 8, WRITE_BYTES = 9 };

/* What the design says it did. */
struct Record {
    uint32_t kind;
    uint64_t data;
    uint64_t cycle;
};
enum Kinds { SEND = 8, STACK = 9, HOST_PACKET = 10, HOST_MESSAGE = 11, DMA = 12, LOG = 13, DROP = 14, END = 15, LAST = 16 };

/* A packet from one of the streams out. */
struct Out {
    std::vector<uint8_t> bytes;
    uint64_t cycle; /* of its first beat */
    uint32_t user;
};

/* xorshift64: which cycles a side waits in. */
struct Random {
    uint64_t state;
    uint32_t next()
    {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        return (uint32_t)(state >> 32);
    }
};

/* Whether a side is ready, in bursts. */
struct Pressure {
    Random *random;
    uint32_t left, level;
    bool ready()
    {
        if (!random)
            return true;
        if (left == 0) {
            left = 1 + random->next() % 64;
            level = random->next() % 4;
        }
        left--;
        static const uint32_t chance[4] = {256, 192, 64, 8};
        return random->next() % 256 < chance[level];
    }
};

class Driver {
  public:
    Driver() : top(new Vnf_top(&context)) {}
    ~Driver()
    {
        top->final();
#if NF_TRACE
        if (trace)
            trace->close();
#endif
    }

    void open_trace(const char *path)
    {
#if NF_TRACE
        context.traceEverOn(true);
        trace = new VerilatedFstC;
        top->trace(trace, 99);
        trace->open(path);
#else
        fail(std::string(path) + ": this design was built without traces");
#endif
    }

    /* One cycle in two halves: inputs are set before `settle`, outputs looked at behind it, then the edge. */
    void settle()
    {
        top->clk = 0;
        top->eval();
#if NF_TRACE
        if (trace)
            trace->dump(4 * cycle);
#endif
    }
    void edge()
    {
        top->clk = 1;
        top->eval();
#if NF_TRACE
        if (trace)
            trace->dump(4 * cycle + 2);
#endif
        cycle++;
    }

    void reset()
    {
        top->rst = 1;
        top->s_axis_tvalid = top->m_axis_tready = top->h_axis_tready = 0;
        top->s_axil_awvalid = top->s_axil_wvalid = top->s_axil_arvalid = 0;
        top->s_axil_bready = top->s_axil_rready = 1;
        top->s_axil_wstrb = 15;
        for (int i = 0; i < 4; i++) {
            settle();
            edge();
        }
        top->rst = 0;
        while (!read(0x0c))
            if (cycle > 100 * kStandstill)
                fail("the design does not come out of reset");
    }

    void write(uint32_t address, uint32_t data)
    {
        top->s_axil_awaddr = address;
        top->s_axil_wdata = data;
        top->s_axil_awvalid = top->s_axil_wvalid = 1;
        for (bool taken = false; !taken;) {
            settle();
            taken = top->s_axil_awready;
            edge();
        }
        top->s_axil_awvalid = top->s_axil_wvalid = 0;
        for (bool answered = false; !answered;) {
            settle();
            answered = top->s_axil_bvalid;
            edge();
        }
    }

    uint32_t read(uint32_t address)
    {
        top->s_axil_araddr = address;
        top->s_axil_arvalid = 1;
        for (bool taken = false; !taken;) {
            settle();
            taken = top->s_axil_arready;
            edge();
        }
        top->s_axil_arvalid = 0;
        for (;;) {
            settle();
            bool answered = top->s_axil_rvalid;
            uint32_t data = top->s_axil_rdata;
            edge();
            if (answered)
                return data;
        }
    }

    void write_bytes(uint32_t address, const uint8_t *bytes, uint32_t size)
    {
        for (uint32_t at = 0; at < size; at += 4) {
            uint32_t word = 0;
            memcpy(&word, bytes + at, size - at < 4 ? size - at : 4);
            write(address + at, word);
        }
    }

    void read_bytes(uint32_t address, uint8_t *bytes, uint32_t size)
    {
        for (uint32_t at = 0; at < size; at += 4) {
            uint32_t word = read(address + at);
            memcpy(bytes + at, &word, size - at < 4 ? size - at : 4);
        }
    }

    bool command(uint32_t table, Op op)
    {
        write(0x10, table);
        write(0x14, op);
        uint64_t start = cycle;
        for (;;) {
            uint32_t status = read(0x18);
            if (!(status & 1))
                return status & 2;
            if (cycle - start > kStandstill)
                fail("a table command does not end");
        }
    }

    VerilatedContext context;
    Vnf_top *top;
    uint64_t cycle = 0;
#if NF_TRACE
    VerilatedFstC *trace = nullptr;
#endif
};

void fill(Driver &driver, const std::vector<Table> &tables, const char *path)
{
    std::vector<uint8_t> file = read_file(path);
    Reader in = {file.data(), file.data() + file.size()};
    while (in.more()) {
        uint32_t number = in.u32(), detail = in.u32(), buf = in.u32();
        in.u32();
        const Table &table = tables.at(number);
        driver.write(0x20, detail);
        driver.write_bytes(0x400, in.take(table.key), table.key);
        driver.write_bytes(0x800, in.take(table.key), table.key);
        const uint8_t *first = in.take(table.value);
        std::vector<uint8_t> value(first, first + table.value);
        value.resize(table.value + table.extra);
        driver.write_bytes(0x1000, value.data(), value.size());
        if (!driver.command(number, UPDATE))
            fail("table " + std::to_string(number) + " refused an entry it is filled with");
        uint32_t index = driver.read(0x1c);
        const uint8_t *bytes = in.take(buf);
        if (table.extra && buf) {
            memcpy(value.data() + table.value, &buf, 4);
            driver.write_bytes(0x1000, value.data(), value.size());
            driver.write(0x1c, index);
            driver.command(number, WRITE);
            for (uint32_t at = 0; at < buf; at += 64) {
                driver.write_bytes(0x1000, bytes + at, buf - at < 64 ? buf - at : 64);
                driver.write(0x1c, index * table.lines + at / 64);
                driver.command(number, WRITE_BYTES);
            }
        }
    }
}

void dump(Driver &driver, const std::vector<Table> &tables, const char *path)
{
    Writer out;
    for (uint32_t number = 0; number < tables.size(); number++) {
        const Table &table = tables[number];
        uint32_t index = 0;
        for (;;) {
            driver.write(0x1c, index);
            if (!driver.command(number, NEXT))
                break;
            index = driver.read(0x1c);
            std::vector<uint8_t> key(table.key), mask(table.key), value(table.value + table.extra);
            driver.read_bytes(0x1000, value.data(), value.size());
            uint32_t length = 0;
            if (table.extra)
                memcpy(&length, value.data() + table.value, 4);
            bool zero = length == 0;
            for (uint32_t i = 0; i < table.value; i++)
                zero = zero && value[i] == 0;
            /* Of an array only what is not zero. */
            if (table.kind != ARRAY || !zero) {
                driver.read_bytes(0x400, key.data(), table.key);
                uint32_t detail = 0;
                if (table.kind == LPM || table.kind == TERNARY)
                    detail = driver.read(0x20);
                if (table.kind == TERNARY)
                    driver.read_bytes(0x800, mask.data(), table.key);
                out.u32(number);
                out.u32(detail);
                out.u32(length);
                out.u32(0);
                out.raw(key.data(), key.size());
                out.raw(mask.data(), mask.size());
                out.raw(value.data(), table.value);
                for (uint32_t at = 0; at < length; at += 64) {
                    uint8_t line[64];
                    driver.write(0x1c, index * table.lines + at / 64);
                    driver.command(number, READ_BYTES);
                    driver.read_bytes(0x1000, line, 64);
                    out.raw(line, length - at < 64 ? length - at : 64);
                }
            }
            index++;
        }
    }
    out.save(path);
}

/* A stream out: collects packets. */
struct Sink {
    std::deque<Out> done;
    Out now;
    bool first = true;
    uint64_t packets = 0, beats = 0, waited = 0;

    void beat(const VlWide<16> &data, uint64_t keep, bool last, uint32_t user, uint64_t cycle)
    {
        if (first) {
            now = Out{{}, cycle, user};
            first = false;
        }
        uint8_t bytes[64];
        memcpy(bytes, data.m_storage, 64);
        uint32_t count = keep == ~0ull ? 64 : (uint32_t)__builtin_ctzll(~keep);
        if (keep != ~0ull && keep >> count)
            fail("a stream has holes between its bytes");
        now.bytes.insert(now.bytes.end(), bytes, bytes + count);
        beats++;
        if (last) {
            done.push_back(std::move(now));
            first = true;
            packets++;
        }
    }
};

} // namespace

int main(int argc, char **argv)
{
    const char *events_at = nullptr, *fill_at = nullptr, *shape_at = nullptr, *outputs_at = nullptr, *tables_at = nullptr,
               *stats_at = nullptr, *trace_at = nullptr;
    uint64_t seed = 0;
    for (int i = 1; i + 1 < argc; i += 2) {
        std::string name = argv[i];
        const char *value = argv[i + 1];
        if (name == "--events")
            events_at = value;
        else if (name == "--fill")
            fill_at = value;
        else if (name == "--shape")
            shape_at = value;
        else if (name == "--outputs")
            outputs_at = value;
        else if (name == "--tables")
            tables_at = value;
        else if (name == "--stats")
            stats_at = value;
        else if (name == "--trace")
            trace_at = value;
        else if (name == "--seed")
            seed = strtoull(value, nullptr, 0);
        else
            fail("unknown argument " + name);
    }
    if (!events_at || !fill_at || !shape_at || !outputs_at || !tables_at || !stats_at)
        fail("an argument is missing");

    std::vector<uint8_t> shape = read_file(shape_at), file = read_file(events_at);
    Reader in = {shape.data(), shape.data() + shape.size()};
    uint32_t counters = in.u32();
    std::vector<Table> tables;
    while (in.more()) {
        Table table;
        table.kind = in.u32();
        table.capacity = in.u32();
        table.key = in.u32();
        table.value = in.u32();
        table.extra = in.u32();
        table.lines = in.u32();
        tables.push_back(table);
    }
    std::vector<Event> events;
    in = {file.data(), file.data() + file.size()};
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

    Driver driver;
    if (trace_at)
        driver.open_trace(trace_at);
    Vnf_top *top = driver.top;
    driver.reset();
    fill(driver, tables, fill_at);

    Random random = {seed ? seed * 0x9e3779b97f4a7c15ull : 1};
    Random *use = seed ? &random : nullptr;
    Pressure in_side = {use, 0, 0}, net_side = {use, 0, 0}, host_side = {use, 0, 0};
    Sink net, host;
    std::vector<Record> records;
    std::vector<uint64_t> entered(events.size());
    size_t next = 0, ended = 0, net_due = 0, host_due = 0;
    uint32_t offset = 0;
    bool offered = false;
    uint64_t in_waits = 0, start = driver.cycle, last_progress = start, last_out = start, first_in = 0, in_beats = 0;
    /* Events that the way in drops end nowhere. */
    std::vector<uint64_t> taken;
    for (size_t at = 0; at < events.size(); at++)
        if (!events[at].dropped())
            taken.push_back(at);
    while (next < events.size() || ended < taken.size() || net.packets < net_due || host.packets < host_due) {
        /* A beat that was offered stays until it is taken. */
        if (next < events.size() && !offered)
            offered = in_side.ready();
        top->s_axis_tvalid = offered;
        if (offered) {
            const Event &event = events[next];
            uint32_t count = event.length - offset < 64 ? event.length - offset : 64;
            uint8_t beat[64] = {0};
            memcpy(beat, event.bytes + offset, count);
            memcpy(top->s_axis_tdata.m_storage, beat, 64);
            top->s_axis_tkeep = count == 64 ? ~0ull : (1ull << count) - 1;
            top->s_axis_tlast = offset + count == event.length;
            top->s_axis_tuser = (event.port & 255) | (event.host == 1 ? 512 : event.host == 2 ? 256 : 0);
            top->time_ns = event.time;
            top->seed = event.seed;
        }
        top->m_axis_tready = net_side.ready();
        top->h_axis_tready = host_side.ready();
        driver.settle();
        bool progress = false;
        if (offered && top->s_axis_tready) {
            if (offset == 0)
                entered[next] = driver.cycle;
            if (next == 0 && offset == 0)
                first_in = driver.cycle;
            in_beats++;
            offset += 64;
            if (offset >= events[next].length) {
                next++;
                offset = 0;
            }
            offered = false;
            progress = true;
        } else if (offered) {
            in_waits++;
        }
        if (top->m_axis_tvalid) {
            if (top->m_axis_tready) {
                net.beat(top->m_axis_tdata, top->m_axis_tkeep, top->m_axis_tlast, top->m_axis_tuser, driver.cycle);
                last_out = driver.cycle;
                progress = true;
            } else {
                net.waited++;
            }
        }
        if (top->h_axis_tvalid) {
            if (top->h_axis_tready) {
                host.beat(top->h_axis_tdata, top->h_axis_tkeep, top->h_axis_tlast, 0, driver.cycle);
                last_out = driver.cycle;
                progress = true;
            } else {
                host.waited++;
            }
        }
        if (top->rec_valid) {
            Record record = {top->rec_kind, top->rec_data, driver.cycle};
            records.push_back(record);
            uint32_t kind = record.kind & 15;
            ended += record.kind & LAST ? 1 : 0;
            if (kind == SEND || kind == STACK)
                net_due++;
            else if (kind != DROP && kind != END)
                host_due++;
            progress = true;
        }
        driver.edge();
        if (progress)
            last_progress = driver.cycle;
        if (driver.cycle - last_progress > kStandstill)
            fail("the design stands still: " + std::to_string(ended) + " of " + std::to_string(events.size()) +
                 " events are done after " + std::to_string(driver.cycle) + " cycles");
    }
    uint64_t stop = driver.cycle;
    top->s_axis_tvalid = 0;

    Writer out, stats;
    uint64_t event = 0, measured = 0, least = ~0ull, most = 0, sum = 0;
    std::vector<uint64_t> latencies;
    for (const Record &record : records) {
        uint32_t kind = record.kind & 15;
        uint64_t number = taken.at(event);
        event += record.kind & LAST ? 1 : 0;
        if (kind == END)
            continue;
        Out packet;
        if (kind != DROP) {
            std::deque<Out> &from = kind <= STACK ? net.done : host.done;
            packet = std::move(from.front());
            from.pop_front();
            uint64_t latency = packet.cycle - entered[number];
            latencies.push_back(latency);
            measured++;
            sum += latency;
            least = latency < least ? latency : least;
            most = latency > most ? latency : most;
        }
        out.u64(number);
        out.u64(record.data);
        out.u32(kind - 7);
        out.u32((uint32_t)packet.bytes.size());
        out.raw(packet.bytes.data(), packet.bytes.size());
    }
    out.save(outputs_at);
    dump(driver, tables, tables_at);

    for (uint64_t value : {(uint64_t)events.size(), last_out >= first_in ? last_out - first_in + 1 : 0, stop - start, in_beats, in_waits,
                           net.packets, net.beats, net.waited, host.packets, host.beats, host.waited, measured,
                           measured ? least : 0, most, sum})
        stats.u64(value);
    stats.u64(counters);
    for (uint32_t at = 0; at < counters; at++)
        stats.u64(driver.read(0x100 + 4 * at));
    stats.u64(latencies.size());
    for (uint64_t latency : latencies)
        stats.u64(latency);
    stats.save(stats_at);
    return 0;
}
