/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * nf_driver: runs a generated design under Verilator. It fills the tables through AXI4-Lite, plays events into the
 * stream, takes what comes out, reads the tables and counters, and writes everything down for `crates/run/src/rtl`,
 * which defines the files.
 *
 *   driver --events FILE --fill FILE --shape FILE --outputs FILE --tables FILE --stats FILE [--seed N] [--trace FILE]
 * [--reset-at N]
 *          [--lossy 1] [--serve 1]
 *
 * With a seed other than 0 streams wait at random, and now and then the host looks into a table. `--reset-at` resets
 * the design so many cycles after the first event and begins anew: nothing from before may be left. `--lossy` is for
 * designs that drop frames they have no room for: outputs are numbered by the frames that were taken. `--serve` answers
 * requests for tables afterwards (`nf_tables.h`).
 */
#include "nf_tables.h"

namespace
{

struct Arguments {
    const char *events = nullptr, *fill = nullptr, *shape = nullptr, *outputs = nullptr, *tables = nullptr,
               *stats = nullptr, *trace = nullptr;
    uint64_t seed = 0, reset_at = 0, lossy = 0, serve = 0;

    Arguments(int argc, char **argv)
    {
        struct {
            const char *name;
            const char **text;
            uint64_t *number;
        } known[] = {
            {"--events", &events, nullptr},   {"--fill", &fill, nullptr},     {"--shape", &shape, nullptr},
            {"--outputs", &outputs, nullptr}, {"--tables", &tables, nullptr}, {"--stats", &stats, nullptr},
            {"--trace", &trace, nullptr},     {"--seed", nullptr, &seed},     {"--reset-at", nullptr, &reset_at},
            {"--lossy", nullptr, &lossy},     {"--serve", nullptr, &serve}};
        for (int i = 1; i + 1 < argc; i += 2) {
            bool found = false;
            for (auto &option : known) {
                if (strcmp(option.name, argv[i]))
                    continue;
                if (option.text)
                    *option.text = argv[i + 1];
                else
                    *option.number = strtoull(argv[i + 1], nullptr, 0);
                found = true;
            }
            if (!found)
                fail(std::string("unknown argument ") + argv[i]);
        }
        for (const char *file : {events, fill, shape, outputs, tables, stats})
            if (!file)
                fail("an argument is missing");
    }
};

/* Plays events until all that came of them is out, or for `most` cycles. */
void play(Design &design, Tables &tables, Traffic &traffic, uint64_t most)
{
    design.traffic = &traffic;
    uint64_t start = design.cycle;
    traffic.last_progress = traffic.last_out = start;
    size_t expected = traffic.taken.size();
    bool counted = !traffic.lossy;
    Random looks = {traffic.random.state ^ 1};
    uint64_t next_look = traffic.use ? start + looks.next() % 1024 : ~0ull;
    while (!counted || !traffic.all_out(expected)) {
        if (design.cycle - start >= most)
            return;
        design.settle();
        design.edge();
        if (!counted && traffic.all_in()) {
            expected = design.read(0x100);
            counted = true;
        }
        if (design.cycle >= next_look) {
            tables.look(looks);
            next_look = design.cycle + looks.next() % 1024;
        }
        if (design.cycle - traffic.last_progress > kStandstill)
            fail("the design stands still: " + std::to_string(traffic.ended) + " of " + std::to_string(expected) +
                 " events are done after " + std::to_string(design.cycle) + " cycles");
    }
}

} // namespace

int main(int argc, char **argv)
{
    Arguments arguments(argc, argv);
    Shape shape(read_file(arguments.shape));
    std::vector<uint8_t> file = read_file(arguments.events), entries = read_file(arguments.fill);
    std::vector<Event> events = read_events(file);

    Design design;
    if (arguments.trace)
        design.open_trace(arguments.trace);
    Tables tables(design, shape.tables);
    design.reset();
    tables.fill(entries);
    if (arguments.reset_at) {
        Traffic lost(events, arguments.seed, arguments.lossy);
        play(design, tables, lost, arguments.reset_at);
        design.reset();
        tables.fill(entries);
    }
    Traffic traffic(events, arguments.seed, arguments.lossy);
    uint64_t start = design.cycle;
    play(design, tables, traffic, ~0ull);
    uint64_t cycles = design.cycle - start;

    Writer out, contents, stats;
    traffic.results(out, shape, placements);
    out.save(arguments.outputs);
    tables.dump(contents);
    contents.save(arguments.tables);
    uint64_t busy = traffic.last_out >= traffic.first_in ? traffic.last_out - traffic.first_in + 1 : 0;
    for (uint64_t value : {(uint64_t)events.size(), busy, cycles, traffic.in_beats, traffic.in_waits,
                           traffic.net.packets, traffic.net.beats, traffic.net.waited, traffic.host.packets,
                           traffic.host.beats, traffic.host.waited, (uint64_t)shape.counters})
        stats.u64(value);
    for (uint32_t at = 0; at < shape.counters; at++)
        stats.u64(design.read(0x100 + 4 * at));
    stats.u64(traffic.latencies.size());
    for (uint64_t latency : traffic.latencies)
        stats.u64(latency);
    stats.save(arguments.stats);
    if (arguments.serve)
        tables.serve();
    return 0;
}
