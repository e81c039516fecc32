// nf_spin_top as a library: Verilator's model, and around it a MAC, a host and the ports of clusters. Rust speaks with
// it through the functions at the end (crates/run/src/spin/datapath); they drive pins only, the model's memories are
// not touched.
//
// A cycle: inputs are set, outputs and handshakes are looked at, the clock rises. What came out is a list of events, in
// the order in which it happened; a cycle with events ends a run. What the scheduler does within one cycle is told as
// it is defined: pick, end, arrival. With a seed, streams wait at random. Nothing happens for QUIET cycles: the model
// sleeps until something comes from outside.
#include <cstdint>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <vector>

#include "Vnf_spin_top.h"
#include "verilated.h"

namespace
{

constexpr unsigned QUIET = 64, LINE_BYTES = 64, BURST = 4096;
using Bytes = std::vector<uint8_t>;

enum Kind : uint32_t {
    TO_HOST = 1,   // a frame that no rule wants: user, frame
    DROPPED = 2,   // user, why
    ARRIVED = 3,   // the scheduler has a packet, or dropped it: user, address, bytes, message, context, end, why
    PICKED = 4,    // a task: queue, handler, context, message, address, bytes, cluster, frees
    TASK = 5,      // the same, with its packet read: function, handler memory, host memory, scratchpad; data
    FREED = 6,     // address
    SENT = 7,      // number, frame
    WRITTEN = 8,   // number, address in the host's memory, data; refused
    GRANTED = 9,   // user, bytes, all slots' state before it: address
    CREDITED = 11, // a cluster has room for one more task: cluster
    ENDED = 10,    // a task has ended: queue, handler, address
};

struct Event {
    uint64_t time;
    uint64_t user;
    uint32_t kind;
    uint32_t words[16];
    uint32_t bytes;
    const uint8_t *data;
};

struct Frame {
    uint64_t user, time;
    Bytes data;
    uint64_t in, decided;
};

struct Range {
    uint64_t least, most, sum, count;
    void add(uint64_t cycles)
    {
        least = count && least < cycles ? least : cycles;
        most = most > cycles ? most : cycles;
        sum += cycles;
        count++;
    }
};

struct Task {
    uint32_t words[16];
};

struct Send {
    uint32_t number, address;
    Bytes data;
};

struct HostWrite {
    uint32_t number;
    uint64_t address;
    Bytes data;
    size_t done;
    Bytes came;
    bool refused;
};

struct Packet {
    uint32_t bytes, asked, got;
    Bytes data;
};

struct Spin {
    VerilatedContext context;
    std::unique_ptr<Vnf_spin_top> top;
    uint64_t now = QUIET + 1, last_active = 0, random = 0;
    bool stuck = false;
    size_t told = 0; // events that the last run gave
    std::vector<Event> events;
    std::vector<std::unique_ptr<Bytes>> datas; // what events point to

    std::deque<Frame> coming; // not wholly on the stream
    size_t at = 0;            // bytes of the first of them that are
    bool offering = false;
    std::deque<Frame> undecided, unmatched, matched, granted;
    Bytes passing, leaving, hosting;
    std::deque<Bytes> left;
    unsigned credits[32] = {};
    std::deque<Task> ends;
    std::deque<Send> sends;
    std::deque<HostWrite> writes;
    unsigned write_state = 0; // 0 address, 1 data, 2 response
    std::deque<std::pair<uint64_t, uint32_t>> answers;
    Bytes sending; // what the frame that is sent was in its cluster
    uint32_t sending_at = 0;
    std::deque<std::pair<uint32_t, Bytes>> stores; // lines that handlers changed
    std::map<uint32_t, Packet> packets;            // by address, until they are freed
    std::deque<uint32_t> to_read, reading;
    std::deque<Task> picked;
    // What the scheduler did in the cycle before, to be told behind its pick.
    std::vector<Event> held;
    Range matching = {}, ingress = {}, scheduling = {}, bridging = {};
    uint64_t burst_at = 0;
    std::map<uint32_t, uint64_t> arrived_at;

    Spin() : top(new Vnf_spin_top(&context))
    {
        top->rst = 1;
        for (int i = 0; i < 4; i++)
            clock();
        top->rst = 0;
    }

    bool stall()
    {
        if (!random)
            return false;
        random ^= random << 13, random ^= random >> 7, random ^= random << 17;
        return (random >> 20) % 4 == 0;
    }

    void clock()
    {
        top->clk = 0;
        top->eval();
        top->clk = 1;
        top->eval();
    }

    const uint8_t *keep(Bytes data)
    {
        datas.emplace_back(new Bytes(std::move(data)));
        return datas.back()->data();
    }

    Event &tell(Kind kind, uint64_t user, std::initializer_list<uint32_t> words)
    {
        Event event = {};
        event.time = now;
        event.user = user;
        event.kind = kind;
        size_t i = 0;
        for (uint32_t word : words)
            event.words[i++] = word;
        events.push_back(event);
        return events.back();
    }

    void with(Event &event, Bytes data)
    {
        event.bytes = (uint32_t)data.size();
        event.data = keep(std::move(data));
    }

    static void put(VlWide<16> &wide, const uint8_t *bytes, size_t count)
    {
        std::memset(wide.data(), 0, LINE_BYTES);
        std::memcpy(wide.data(), bytes, count);
    }

    static void take(Bytes &into, const VlWide<16> &wide, uint64_t keep)
    {
        const uint8_t *bytes = (const uint8_t *)wide.data();
        for (unsigned i = 0; i < LINE_BYTES; i++)
            if (keep >> i & 1)
                into.push_back(bytes[i]);
    }

    static uint64_t ones(size_t count) { return count >= 64 ? ~0ull : (1ull << count) - 1; }

    void drive()
    {
        Vnf_spin_top &t = *top;
        t.now = now;
        if (!offering && !coming.empty() && coming.front().time <= now && !stall()) {
            Frame &frame = coming.front();
            size_t count = std::min<size_t>(LINE_BYTES, frame.data.size() - at);
            put(t.s_axis_sync_rx_tdata, frame.data.data() + at, count);
            t.s_axis_sync_rx_tkeep = ones(count);
            t.s_axis_sync_rx_tlast = at + count == frame.data.size();
            offering = true;
            last_active = now;
        }
        t.s_axis_sync_rx_tvalid = offering;
        t.m_axis_sync_rx_tready = !stall();
        t.m_axis_sync_tx_tready = !stall();
        t.host_tready = !stall();
        t.dma_ready = !stall();
        t.b_ready = !stall();
        t.credit = 0;
        for (unsigned c = 0; c < 32; c++)
            if (credits[c])
                t.credit |= 1u << c;
        t.e_valid = !ends.empty();
        if (!ends.empty()) {
            const uint32_t *w = ends.front().words;
            t.e_queue = w[0], t.e_handler = w[1], t.e_address = w[4], t.e_cluster = w[6], t.e_frees = w[7];
        }
        // Clusters: changed lines are written, then packets are read.
        t.c_valid = !stores.empty() || !to_read.empty();
        t.c_write = !stores.empty();
        if (!stores.empty()) {
            t.c_line = stores.front().first;
            put(t.c_data, stores.front().second.data(), LINE_BYTES);
            t.c_keep = ~0ull;
        } else if (!to_read.empty()) {
            const Packet &packet = packets[to_read.front()];
            t.c_line = (to_read.front() - NF_PACKETS) / LINE_BYTES + packet.asked;
        }
        t.send_valid = !sends.empty() && stores.empty();
        if (!sends.empty())
            t.send_address = sends.front().address, t.send_bytes = sends.front().data.size(),
            t.send_number = sends.front().number;
        t.r_ready = !stall();
        t.q_valid = !answers.empty() && answers.front().first <= now;
        if (t.q_valid) {
            // What the frame begins in may be any place of a line; other bytes are not the frame's.
            uint8_t line[LINE_BYTES] = {};
            for (unsigned i = 0; i < LINE_BYTES; i++) {
                uint32_t offset = answers.front().second + i - sending_at;
                line[i] = offset < sending.size() ? sending[offset] : 0xee;
            }
            put(t.q_data, line, LINE_BYTES);
        }
        t.aw_valid = !writes.empty() && write_state == 0;
        t.w_valid = !writes.empty() && write_state == 1 && !stall();
        if (!writes.empty()) {
            const HostWrite &write = writes.front();
            uint64_t address = write.address + write.done;
            t.aw_address = address;
            if (write_state == 1) {
                size_t offset = address % LINE_BYTES;
                size_t count = std::min<size_t>(LINE_BYTES - offset, write.data.size() - write.done);
                uint8_t line[LINE_BYTES];
                std::memset(line, 0xdd, LINE_BYTES);
                std::memcpy(line + offset, write.data.data() + write.done, count);
                put(t.w_data, line, LINE_BYTES);
                t.w_strobe = ones(count) << offset;
                t.w_last = write.done + count == write.data.size() || (address + count) % BURST == 0;
            }
        }
    }

    /// One cycle.
    void step()
    {
        Vnf_spin_top &t = *top;
        drive();
        t.clk = 0;
        t.eval();
        bool active = false;

        if (t.t_valid) {
            uint32_t w[16] = {t.t_queue,
                              t.t_handler,
                              t.t_context,
                              t.t_message,
                              t.t_address,
                              t.t_bytes,
                              t.t_cluster,
                              t.t_frees,
                              t.t_function,
                              (uint32_t)t.t_handler_memory,
                              (uint32_t)(t.t_handler_memory >> 32),
                              t.t_host_memory[0],
                              t.t_host_memory[1],
                              t.t_host_memory[2],
                              (uint32_t)t.t_scratchpad,
                              (uint32_t)(t.t_scratchpad >> 32)};
            Event &event = tell(PICKED, 0, {});
            std::memcpy(event.words, w, sizeof w);
            Task task;
            std::memcpy(task.words, w, sizeof w);
            picked.push_back(task);
            auto since = arrived_at.find(w[4]);
            if (since != arrived_at.end()) {
                scheduling.add(now - since->second);
                arrived_at.erase(since);
            }
            active = true;
        }
        for (Event &event : held)
            events.push_back(event);
        held.clear();

        if (t.s_axis_sync_rx_tvalid && t.s_axis_sync_rx_tready) {
            Frame &frame = coming.front();
            if (at == 0)
                frame.in = now;
            if (at == 0)
                undecided.push_back({frame.user, frame.time, {}, now, 0});
            at += LINE_BYTES;
            if (at >= frame.data.size()) {
                coming.pop_front();
                at = 0;
            }
            offering = false;
            active = true;
        }
        if (t.x_in) {
            Frame frame = undecided.front();
            undecided.pop_front();
            frame.decided = now;
            matching.add(now - frame.in);
            (t.m_axis_sync_rx_tvalid ? unmatched : matched).push_back(frame);
            active = true;
        }
        if (t.m_axis_sync_rx_tvalid && t.m_axis_sync_rx_tready) {
            take(passing, t.m_axis_sync_rx_tdata, t.m_axis_sync_rx_tkeep);
            if (t.m_axis_sync_rx_tlast) {
                with(tell(TO_HOST, unmatched.front().user, {}), std::move(passing));
                unmatched.pop_front();
                passing = {};
            }
            active = true;
        }
        if (t.x_grant) {
            granted.push_back(matched.front());
            matched.pop_front();
            tell(GRANTED, granted.back().user, {});
            active = true;
        }
        if (t.x_dropped) {
            tell(DROPPED, matched.front().user, {t.x_why});
            matched.pop_front();
            active = true;
        }
        size_t before = events.size();
        if (t.e_valid) {
            const uint32_t *w = ends.front().words;
            tell(ENDED, 0, {w[0], w[1], w[2], w[3], w[4], w[5], w[6], w[7]});
            ends.pop_front();
            active = true;
        }
        if (t.x_arrived) {
            uint32_t address = NF_PACKETS + t.x_line * LINE_BYTES;
            uint64_t tag = t.x_tag;
            const Frame &frame = granted.front();
            tell(ARRIVED, frame.user,
                 {address, t.x_bytes, (uint32_t)(tag >> 2), (uint32_t)(tag & 3), (uint32_t)(tag >> 34), t.x_drop});
            if (!t.x_drop) {
                ingress.add(now - frame.decided);
                arrived_at[address] = now;
                packets[address] = {t.x_bytes, 0, 0, {}};
                to_read.push_back(address);
            }
            granted.pop_front();
            active = true;
        }
        for (unsigned c = 0; c < 32; c++)
            if (t.credit >> c & 1) {
                credits[c]--;
                tell(CREDITED, 0, {c});
                active = true;
            }
        if (t.x_freed) {
            uint32_t address = NF_PACKETS + t.x_freed_line * LINE_BYTES;
            tell(FREED, 0, {address});
            packets.erase(address);
            active = true;
        }
        // The pick of this cycle is seen in the next one, and was before these.
        held.assign(events.begin() + (long)before, events.end());
        events.resize(before);

        if (t.c_valid && t.c_ready) {
            if (t.c_write) {
                stores.pop_front();
            } else {
                Packet &packet = packets[to_read.front()];
                reading.push_back(to_read.front());
                if (++packet.asked * LINE_BYTES >= packet.bytes)
                    to_read.pop_front();
            }
            active = true;
        }
        if (t.cq_valid) {
            Packet &packet = packets[reading.front()];
            reading.pop_front();
            take(packet.data, t.cq_data, ones(std::min<size_t>(LINE_BYTES, packet.bytes - packet.data.size())));
            active = true;
        }
        while (!picked.empty()) {
            Packet &packet = packets[picked.front().words[4]];
            if (packet.data.size() < packet.bytes)
                break;
            Event &event = tell(TASK, 0, {});
            std::memcpy(event.words, picked.front().words, sizeof event.words);
            with(event, packet.data);
            picked.pop_front();
        }
        if (t.q_valid)
            answers.pop_front();
        if (t.r_valid && t.r_ready) {
            answers.push_back({now + 2 + stall(), t.r_address});
            active = true;
        }
        if (t.send_valid && t.send_ready) {
            sending = std::move(sends.front().data);
            sending_at = sends.front().address;
            sends.pop_front();
            active = true;
        }
        if (t.m_axis_sync_tx_tvalid && t.m_axis_sync_tx_tready) {
            take(leaving, t.m_axis_sync_tx_tdata, t.m_axis_sync_tx_tkeep);
            if (t.m_axis_sync_tx_tlast)
                left.push_back(std::move(leaving)), leaving = {};
            active = true;
        }
        if (t.sent_valid) {
            with(tell(SENT, 0, {t.sent_number}), std::move(left.front()));
            left.pop_front();
            active = true;
        }
        step_host(active);
        stuck = t.x_stuck;
        t.clk = 1;
        t.eval();
        if (active)
            last_active = now;
        now++;
    }

    void step_host(bool &active)
    {
        Vnf_spin_top &t = *top;
        if (t.aw_valid && t.aw_ready)
            write_state = 1, burst_at = now, active = true;
        if (t.w_valid && t.w_ready) {
            HostWrite &write = writes.front();
            write.done += (size_t)__builtin_popcountll(t.w_strobe);
            if (t.w_last)
                write_state = 2;
            active = true;
        }
        if (t.host_tvalid && t.host_tready) {
            take(hosting, t.host_tdata, t.host_tkeep);
            active = true;
        }
        if (t.dma_valid && t.dma_ready) {
            HostWrite &write = writes.front();
            uint64_t expected = write.address + write.came.size();
            // A piece of a command that crosses pages; what the bridge says must join.
            write.refused = write.refused || t.dma_bad || t.dma_address != expected || t.dma_bytes != hosting.size();
            write.came.insert(write.came.end(), hosting.begin(), hosting.end());
            hosting.clear();
            bridging.add(now - burst_at);
            active = true;
        }
        if (t.b_valid && t.b_ready) {
            HostWrite &write = writes.front();
            write_state = 0;
            if (write.done == write.data.size()) {
                bool refused = write.refused || t.b_error;
                Event &event = tell(WRITTEN, write.address, {write.number, refused});
                with(event, std::move(write.came));
                writes.pop_front();
            }
            active = true;
        }
    }
};

} // namespace

extern "C" {

void *nf_spin_new(uint64_t seed)
{
    Spin *spin = new Spin;
    spin->random = seed;
    return spin;
}

void nf_spin_delete(void *handle) { delete (Spin *)handle; }

/// A register is written. Time stands still: the host is not part of what is timed.
void nf_spin_write(void *handle, uint32_t address, uint32_t value)
{
    Spin &spin = *(Spin *)handle;
    Vnf_spin_top &t = *spin.top;
    t.s_axil_app_ctrl_awaddr = address, t.s_axil_app_ctrl_wdata = value, t.s_axil_app_ctrl_wstrb = 15;
    t.s_axil_app_ctrl_awvalid = t.s_axil_app_ctrl_wvalid = t.s_axil_app_ctrl_bready = 1;
    spin.step();
    t.s_axil_app_ctrl_awvalid = t.s_axil_app_ctrl_wvalid = 0;
    spin.step();
}

uint32_t nf_spin_read(void *handle, uint32_t address)
{
    Spin &spin = *(Spin *)handle;
    Vnf_spin_top &t = *spin.top;
    t.s_axil_app_ctrl_araddr = address, t.s_axil_app_ctrl_arvalid = t.s_axil_app_ctrl_rready = 1;
    spin.step();
    t.s_axil_app_ctrl_arvalid = 0;
    uint32_t value = t.s_axil_app_ctrl_rdata;
    spin.step();
    return value;
}

/// A frame on the wire, from a cycle on.
void nf_spin_arrive(void *handle, uint64_t user, uint64_t time, const uint8_t *bytes, uint32_t count)
{
    Spin &spin = *(Spin *)handle;
    spin.coming.push_back({user, time, Bytes(bytes, bytes + count), 0, 0});
}

void nf_spin_credit(void *handle, uint32_t cluster)
{
    Spin &spin = *(Spin *)handle;
    spin.credits[cluster & 31]++;
    spin.last_active = spin.now;
}

/// A task has ended; its words as they came.
void nf_spin_end(void *handle, const uint32_t *words)
{
    Spin &spin = *(Spin *)handle;
    Task task;
    std::memcpy(task.words, words, sizeof task.words);
    spin.ends.push_back(task);
    spin.last_active = spin.now;
}

/// A frame to send, with what its bytes are now in the clusters' eyes.
void nf_spin_send(void *handle, uint32_t number, uint32_t address, const uint8_t *bytes, uint32_t count)
{
    Spin &spin = *(Spin *)handle;
    // Handlers may have changed their packet where it lies: lines that differ are written back first.
    auto next = spin.packets.upper_bound(address);
    if (next != spin.packets.begin()) {
        auto &[start, packet] = *--next;
        size_t offset = address - start;
        if (offset + count <= packet.data.size() && std::memcmp(packet.data.data() + offset, bytes, count)) {
            std::memcpy(packet.data.data() + offset, bytes, count);
            for (size_t line = offset / LINE_BYTES; line * LINE_BYTES < offset + count; line++) {
                Bytes changed(LINE_BYTES);
                size_t most = std::min<size_t>(LINE_BYTES, packet.data.size() - line * LINE_BYTES);
                std::memcpy(changed.data(), packet.data.data() + line * LINE_BYTES, most);
                spin.stores.push_back({(uint32_t)((start - NF_PACKETS) / LINE_BYTES + line), changed});
            }
        }
    }
    spin.sends.push_back({number, address, Bytes(bytes, bytes + count)});
    spin.last_active = spin.now;
}

void nf_spin_write_host(void *handle, uint32_t number, uint64_t address, const uint8_t *bytes, uint32_t count)
{
    Spin &spin = *(Spin *)handle;
    spin.writes.push_back({number, address, Bytes(bytes, bytes + count), 0, {}, false});
    spin.last_active = spin.now;
}

/// The cycle at which something may happen; the last number there is, if nothing will before something comes.
uint64_t nf_spin_next(void *handle)
{
    Spin &spin = *(Spin *)handle;
    if (spin.now - spin.last_active <= QUIET || spin.stuck)
        return spin.now;
    if (!spin.offering && !spin.coming.empty())
        return std::max(spin.now, spin.coming.front().time);
    return ~0ull;
}

/// Runs from a cycle until another, until something has happened or nothing will; gives how many events there are.
uint32_t nf_spin_run(void *handle, uint64_t from, uint64_t until)
{
    Spin &spin = *(Spin *)handle;
    // What happened while registers were used has not been told.
    spin.events.erase(spin.events.begin(), spin.events.begin() + (long)spin.told);
    spin.told = 0;
    if (spin.events.empty())
        spin.datas.clear();
    if (from > spin.now)
        spin.now = spin.last_active = from;
    if (spin.events.empty()) {
        do
            spin.step();
        while (spin.events.empty() && spin.now < until && nf_spin_next(handle) == spin.now);
    }
    spin.told = spin.events.size();
    return (uint32_t)spin.told;
}

const Event *nf_spin_events(void *handle) { return ((Spin *)handle)->events.data(); }

/// Least, most, sum and number of cycles, the last those of a burst in the bridge to the host: a frame in the matcher,
/// from there to the scheduler, from there to its first task.
void nf_spin_latencies(void *handle, uint64_t *into)
{
    Spin &spin = *(Spin *)handle;
    for (const Range &range : {spin.matching, spin.ingress, spin.scheduling, spin.bridging})
        *into++ = range.least, *into++ = range.most, *into++ = range.sum, *into++ = range.count;
}
}
