// Every state that small nf_spin_alloc and nf_spin_scheduler can get into, with every input in each: breadth first, each state once.
//
// A state is the model's memory and what the environment knows; it is put back by copying the model's memory, and told by a hash of it (128 bits).
// The environment gives back only slots it was given, ends only tasks that run, and has at most so many packets in the scheduler as it is told. Checked in
// every step: a slot is free when it is given out, and whoever asks gets one while one of its size is free, so none is lost; a packet is
// freed once, when its last task ends; payload tasks of a message come in the order of its packets; the header task comes first and
// alone, the completion task last, on the packet marked as last; tasks go to clusters with room. Counts and times are held at zero: nothing depends
// on the former, and without patience nothing on the latter. Arguments: after how many steps it ends (0: when there is no new state), and packets.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <unordered_set>
#include <vector>

#include "verilated.h"
#ifdef ALLOC
#include "Vnf_spin_alloc.h"
#include "Vnf_spin_alloc___024root.h"
using Top = Vnf_spin_alloc;
using Root = Vnf_spin_alloc___024root;
#else
#include "Vnf_spin_scheduler.h"
#include "Vnf_spin_scheduler___024root.h"
using Top = Vnf_spin_scheduler;
using Root = Vnf_spin_scheduler___024root;
#endif

static VerilatedContext context;
static std::unique_ptr<Top> top;
static unsigned packets; // most in the scheduler

static void fail(const char *what)
{
    std::printf("wrong: %s\n", what);
    std::exit(1);
}

static void check(bool holds, const char *what)
{
    if (!holds)
        fail(what);
}

static void rise()
{
    top->clk = 1;
    top->eval();
    top->clk = 0;
    top->eval();
}

#ifdef ALLOC
constexpr unsigned SMALLS = 4, SLOTS = 6;

struct Env {
    uint8_t taken; // a bit a slot
};

static const uint8_t LINE_OF[SLOTS] = {0, 2, 4, 6, 8, 32};

static void quiet()
{
    top->a_valid = top->f_valid = 0;
    top->a_bytes = top->f_line = 0;
    top->most_lines = 0;
    top->eval();
}

static void each_input(const Env &env, const std::function<void(std::function<void(Env &)>)> &with)
{
    for (unsigned ask = 0; ask < 4; ask++)
        for (unsigned back = 0; back <= SLOTS; back++) {
            if (back < SLOTS && !(env.taken >> back & 1))
                continue;
            with([ask, back](Env &now) {
                static const uint16_t BYTES[4] = {0, 128, 129, 1537};
                top->a_valid = ask != 0, top->a_bytes = BYTES[ask];
                top->f_valid = back < SLOTS, top->f_line = back < SLOTS ? LINE_OF[back] : 0;
                top->eval();
                unsigned mask = ask == 1 ? 0xf : ask == 2 ? 0x30 : 0;
                check(top->a_long == (ask == 3), "what is too long");
                check(top->a_grant == (mask && (now.taken & mask) != mask), "a slot for who asks while one is free");
                if (top->a_grant) {
                    unsigned slot = 0;
                    while (slot < SLOTS && LINE_OF[slot] != top->a_line)
                        slot++;
                    check(slot < SLOTS && (mask >> slot & 1), "a slot of the size");
                    check(!(now.taken >> slot & 1), "a slot with one owner");
                    now.taken |= 1u << slot;
                }
                if (back < SLOTS)
                    now.taken &= ~(1u << back);
                rise();
                check(top->used_small == __builtin_popcount(now.taken & 0xf), "small slots are counted");
                check(top->used_large == __builtin_popcount(now.taken & 0x30), "large slots are counted");
            });
        }
}

static void start() { top->all_classes = 0; }
#else
constexpr unsigned MESSAGES = 2, LINES = 8;
enum Stage : uint8_t { FREE, WAITS, HEADER, STARTED, KEPT, COMPLETES };

struct Env {
    uint8_t stage[LINES], message[LINES], last[LINES];
    uint8_t order[LINES]; // of a message's packets that wait, 0 the oldest
    uint8_t running[3][LINES], cluster[3][LINES], queue[3][LINES], frees[3][LINES];
    uint8_t headed[MESSAGES], marked[MESSAGES], open[MESSAGES]; // header ended; last packet started; a task has run
    uint8_t credits[2], owed[2];
};

static unsigned waiting(const Env &env, unsigned message)
{
    unsigned count = 0;
    for (unsigned i = 0; i < LINES; i++)
        count += env.stage[i] != FREE && env.message[i] == message && (env.stage[i] == WAITS || env.stage[i] == HEADER);
    return count;
}

static unsigned of_message(const Env &env, unsigned kind, unsigned message)
{
    unsigned count = 0;
    for (unsigned i = 0; i < LINES; i++)
        count += env.running[kind][i] && env.message[i] == message;
    return count;
}

static void quiet()
{
    top->a_valid = top->e_valid = 0;
    top->credit = 0;
    top->a_context = top->a_message = top->a_last = top->a_line = top->a_bytes = 0;
    top->e_cluster = top->e_queue = top->e_handler = top->e_line = top->e_frees = 0;
    // What was told is over; the next task sets all of it.
    top->t_cluster = top->t_queue = top->t_handler = top->t_context = top->t_message = top->t_line = top->t_bytes = top->t_frees = 0;
    top->t_valid = 0;
    top->n_packets = top->n_messages = top->n_ended = top->n_abandoned = top->n_late = 0;
    top->eval();
}

/// Message 0 is of a context with header and completion, message 1 of one with neither.
static void step(Env &now, unsigned arrival, unsigned end, unsigned credit)
{
    if (arrival) {
        unsigned line = 0;
        while (now.stage[line] != FREE)
            line++;
        top->a_valid = 1, top->a_line = line, top->a_last = (arrival - 1) & 1, top->a_message = top->a_context = (arrival - 1) >> 1;
    }
    unsigned kind = end / LINES, line = end % LINES;
    bool ends = kind < 3;
    if (ends) {
        top->e_valid = 1, top->e_line = line, top->e_handler = kind;
        top->e_cluster = now.cluster[kind][line], top->e_queue = now.queue[kind][line], top->e_frees = now.frees[kind][line];
    }
    top->credit = credit;
    top->eval();
    check(top->f_valid == (ends && now.frees[kind][line]), "what is freed");
    if (ends) {
        unsigned message = now.message[line];
        now.running[kind][line] = 0;
        if (kind == 0)
            now.headed[message] = 1, now.stage[line] = WAITS;
        bool frees = now.frees[kind][line];
        if (frees)
            now.stage[line] = FREE;
        else if (kind == 1)
            now.stage[line] = KEPT;
        // The message is over: what waits is the next one.
        bool idle = waiting(now, message) == 0 && of_message(now, 1, message) == 0;
        if (kind == 2 || (message == 1 && idle))
            now.headed[message] = now.marked[message] = now.open[message] = 0;
    }
    bool taken = arrival && top->a_ready;
    if (taken) {
        unsigned line_in = top->a_line, message = top->a_message;
        now.order[line_in] = waiting(now, message);
        now.stage[line_in] = WAITS, now.message[line_in] = message, now.last[line_in] = top->a_last;
    }
    for (unsigned c = 0; c < 2; c++)
        if (credit >> c & 1)
            now.owed[c]--, now.credits[c]++;
    rise();
    if (!top->t_valid)
        return;
    unsigned at = top->t_line, message = top->t_message, handler = top->t_handler, cluster = top->t_cluster;
    check(now.credits[cluster] > (credit >> cluster & 1u), "room in the cluster");
    now.credits[cluster]--, now.owed[cluster]++;
    check(now.stage[at] != FREE && now.message[at] == message && top->t_context == message, "a task's packet");
    check(!now.running[0][at] && !now.running[1][at] && !now.running[2][at], "a packet with one task");
    if (handler == 0) {
        check(message == 0 && !now.headed[0] && !now.open[0], "one header task, first");
        check(now.stage[at] == WAITS && now.order[at] == 0, "the header task on the first packet");
        check(of_message(now, 1, 0) == 0 && of_message(now, 2, 0) == 0, "the header task alone");
        now.stage[at] = HEADER;
        now.open[0] = 1;
    } else if (handler == 1) {
        check(now.stage[at] == WAITS && now.order[at] == 0, "payload tasks in the order of packets");
        check(message == 1 || now.headed[0], "payload behind header");
        check(of_message(now, 2, message) == 0, "no payload beside completion");
        for (unsigned i = 0; i < LINES; i++)
            if (now.stage[i] == WAITS && now.message[i] == message && i != at)
                now.order[i]--;
        now.stage[at] = STARTED;
        bool keeps = message == 0 && now.last[at] && !now.marked[0];
        check(top->t_frees == !keeps, "the last packet is kept");
        now.marked[message] |= now.last[at];
    } else {
        check(message == 0 && handler == 2 && now.stage[at] == KEPT && now.marked[0], "completion on the last packet");
        check(of_message(now, 1, 0) == 0 && top->t_frees, "completion behind all payload tasks");
        now.stage[at] = COMPLETES;
    }
    now.running[handler][at] = 1;
    now.cluster[handler][at] = cluster, now.queue[handler][at] = top->t_queue, now.frees[handler][at] = top->t_frees;
}

static void each_input(const Env &env, const std::function<void(std::function<void(Env &)>)> &with)
{
    unsigned held = 0;
    for (unsigned i = 0; i < LINES; i++)
        held += env.stage[i] != FREE;
    // A unit takes tasks at once or not in this cycle; the next task is seen a cycle later, so credits are given one by one.
    for (unsigned arrival = 0; arrival <= (held < packets ? 4u : 0u); arrival++)
        for (unsigned end = 0; end <= 3 * LINES; end++) {
            if (end < 3 * LINES && !env.running[end / LINES][end % LINES])
                continue;
            for (unsigned credit = 0; credit < 4; credit++)
                if (!((credit & 1) && !env.owed[0]) && !((credit & 2) && !env.owed[1]))
                    with([arrival, end, credit](Env &now) { step(now, arrival, end, credit); });
        }
}

static void start()
{
    top->lossy = 0, top->contexts = 3, top->has_header = top->has_completion = 1, top->serial = 0;
    top->home_limit = 1, top->patience = 1000, top->now = 0;
}
#endif

using State = std::pair<std::string, Env>;

static std::string save() { return std::string((const char *)top->rootp, sizeof(Root)); }

static std::string key(const std::string &bytes, const Env &env)
{
    std::string all = bytes + std::string((const char *)&env, sizeof env);
    uint64_t a = 1469598103934665603ull, b = 0x9e3779b97f4a7c15ull;
    for (unsigned char c : all) {
        a = (a ^ c) * 1099511628211ull;
        b = (b + c) * 0xff51afd7ed558ccdull, b ^= b >> 29;
    }
    return std::string((const char *)&a, 8) + std::string((const char *)&b, 8);
}

int main(int argc, char **argv)
{
    unsigned most = argc > 1 && std::atoi(argv[1]) ? (unsigned)std::atoi(argv[1]) : ~0u;
    packets = argc > 2 ? (unsigned)std::atoi(argv[2]) : 2;
    top.reset(new Top(&context));
    top->clk = 0;
    start();
    quiet();
    top->rst = 1;
    rise(), rise(), rise();
    top->rst = 0;
    quiet();
    Env first = {};
#ifndef ALLOC
    first.credits[0] = first.credits[1] = 1;
#endif
    std::vector<State> open = {{save(), first}};
    std::unordered_set<std::string> known = {key(open[0].first, first)};
    unsigned depth = 0;
    uint64_t steps = 0;
    while (!open.empty() && depth < most) {
        std::vector<State> next;
        for (const auto &[bytes, env] : open)
            each_input(env, [&](std::function<void(Env &)> input) {
                std::memcpy((void *)top->rootp, bytes.data(), bytes.size());
                Env now = env;
                input(now);
                steps++;
                quiet();
                std::string after = save();
                if (known.insert(key(after, now)).second)
                    next.push_back({std::move(after), now});
            });
        open = std::move(next);
        depth++;
    }
    std::printf("%zu states, %llu steps, depth %u, %s\n", known.size(), (unsigned long long)steps, depth, open.empty() ? "all of them" : "more beyond");
    return 0;
}
