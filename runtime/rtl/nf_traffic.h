/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * Streams of a simulated design: events go in beat by beat, packets come out, and the design's
 * record says in order what each event led to.
 *
 * A seed other than 0 makes streams wait at random: bursts of up to 64 cycles in which a side is
 * ready always, mostly, seldom or never.
 */
#ifndef NF_TRAFFIC_H
#define NF_TRAFFIC_H

#include <algorithm>
#include <deque>

#include "Vnf_top.h"
#include "nf_files.h"
#include "nf_placements.h"

/* What the design says it did. */
struct Record {
    uint32_t kind;
    uint64_t data;
    uint64_t cycle;
};
/* Kinds of records. */
enum Kinds {
    SEND = 8 + NF_LEFT_SEND,
    STACK = 8 + NF_LEFT_STACK,
    HOST_PACKET = 8 + NF_LEFT_HOST_PACKET,
    HOST_MESSAGE = 8 + NF_LEFT_HOST_MESSAGE,
    DMA = 8 + NF_LEFT_DMA_WRITE,
    LOG = 8 + NF_LEFT_LOG,
    DROP = 8 + NF_LEFT_DROP,
    END = 8 + NF_LEFT_END,
    LAST = 16
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

/* A packet from one of the streams out. */
struct Out {
    std::vector<uint8_t> bytes;
    uint64_t cycle; /* of its first beat */
};

/* A stream out: collects packets. */
struct Sink {
    std::deque<Out> done;
    Out now;
    bool first = true;
    uint64_t packets = 0, beats = 0, waited = 0;

    /* `beside` are bytes in front of the packet, with its first beat. */
    void beat(const VlWide<16> &data, uint64_t keep, bool last, uint64_t cycle,
              const std::vector<uint8_t> &beside = {})
    {
        if (first) {
            now = Out{beside, cycle};
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

class Traffic
{
  public:
    /* With `lossy` the design drops whole frames it has no room for, so it says itself how many it
     * took. */
    Traffic(const std::vector<Event> &events, uint64_t seed, bool lossy)
        : events(events), lossy(lossy), random{seed ? seed * 0x9e3779b97f4a7c15ull : 1},
          use(seed ? &random : nullptr), in_side{use, 0, 0}, net_side{use, 0, 0},
          host_side{use, 0, 0}, entered(events.size())
    {
        /* Events that the way in drops end nowhere. */
        for (size_t at = 0; at < events.size(); at++)
            if (!events[at].dropped())
                taken.push_back(at);
    }

    /* Whether every event is in. */
    bool all_in() const { return next == events.size(); }
    /* Whether so many events, and all that came of them, are out. */
    bool all_out(size_t expected) const
    {
        return all_in() && ended >= expected && net.packets >= net_due && host.packets >= host_due;
    }

    /* What the streams show in this cycle. */
    void offer(Vnf_top &top)
    {
        /* A beat that was offered stays until it is taken. */
        while (next < events.size() && events[next].host == 4)
            entered[next++] = last_progress;
        if (next < events.size() && !offered)
            offered = in_side.ready();
        top.s_axis_tvalid = offered;
        if (offered) {
            const Event &event = events[next];
            uint32_t count = event.length - offset < 64 ? event.length - offset : 64;
            uint8_t beat[64] = {0};
            memcpy(beat, event.bytes + offset, count);
            memcpy(top.s_axis_tdata.m_storage, beat, 64);
            top.s_axis_tkeep = count == 64 ? ~0ull : (1ull << count) - 1;
            top.s_axis_tlast = offset + count == event.length;
            static const uint32_t marks[] = {0, 512, 256, 1024};
            top.s_axis_tuser = (event.port & 255) | marks[event.host];
            top.time_ns = event.time;
            top.seed = event.seed;
        }
        top.m_axis_tready = net_side.ready();
        top.h_axis_tready = host_side.ready();
    }

    /* What the design does in this cycle. */
    void observe(Vnf_top &top, uint64_t cycle)
    {
        bool progress = false;
        if (offered && top.s_axis_tready) {
            if (offset == 0)
                entered[next] = cycle;
            if (next == 0 && offset == 0)
                first_in = cycle;
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
        if (top.m_axis_tvalid) {
            if (top.m_axis_tready) {
                net.beat(top.m_axis_tdata, top.m_axis_tkeep, top.m_axis_tlast, cycle);
                last_out = cycle;
                progress = true;
            } else {
                net.waited++;
            }
        }
        if (top.h_axis_tvalid) {
            if (top.h_axis_tready) {
                uint8_t user[16];
                memcpy(user, top.h_axis_tuser.m_storage, sizeof(user));
                uint32_t count = user[6] & 15; /* see rtl/nf_egress.sv */
                host.beat(top.h_axis_tdata, top.h_axis_tkeep, top.h_axis_tlast, cycle,
                          {user + 8, user + 8 + count});
                last_out = cycle;
                progress = true;
            } else {
                host.waited++;
            }
        }
        if (top.rec_valid) {
            Record record = {top.rec_kind, top.rec_data, cycle};
            records.push_back(record);
            uint32_t kind = record.kind & 15;
            ended += record.kind & LAST ? 1 : 0;
            if (kind == SEND || kind == STACK)
                net_due++;
            else if (kind != DROP && kind != END)
                host_due++;
            progress = true;
        }
        if (progress)
            last_progress = cycle;
    }

    /* What came out, by event: number, data of the record, kind, and the packet; and with kind 0
     * what tables chose: the table, and the key that was evicted with the one in its place, or none
     * if an insertion was refused, with how many were made before above the table. Fills
     * `latencies`, in cycles. */
    void results(Writer &out, const Shape &shape, const Placements &chosen)
    {
        auto span = [&](uint32_t table) { return shape.tables.at(table).span; };
        std::vector<Eviction> evictions = chosen.by_events(span);
        uint64_t event = 0;
        size_t evicted = 0, refused = 0;
        for (const Record &record : records) {
            uint32_t kind = record.kind & 15;
            uint64_t number = lossy ? event : taken.at(event);
            uint64_t cycle = chosen.passed.empty() ? record.cycle : chosen.passed.at(event);
            for (; evicted < evictions.size() && evictions[evicted].event == event; evicted++) {
                const Eviction &one = evictions[evicted];
                uint32_t size = shape.tables.at(one.table).key;
                out.u64(number);
                out.u64(one.table);
                out.u32(0);
                out.u32(2 * size);
                out.raw(one.key.data(), size);
                out.raw(one.by.data(), size);
            }
            /* They are told with the record. */
            for (; refused < chosen.refusals.size() && chosen.refusals[refused].cycle <= cycle;
                 refused++) {
                out.u64(number);
                out.u64(chosen.refusals[refused].table | (uint64_t)chosen.refusals[refused].inserted
                                                             << 32);
                out.u32(0);
                out.u32(0);
            }
            event += record.kind & LAST ? 1 : 0;
            if (kind == END)
                continue;
            Out packet = {};
            if (kind != DROP) {
                std::deque<Out> &from = kind <= STACK ? net.done : host.done;
                packet = std::move(from.front());
                from.pop_front();
                if (!lossy)
                    latencies.push_back(packet.cycle - entered[number]);
            }
            out.u64(number);
            out.u64(record.data);
            out.u32(kind - 7);
            out.u32((uint32_t)packet.bytes.size());
            out.raw(packet.bytes.data(), packet.bytes.size());
        }
    }

    const std::vector<Event> &events;
    bool lossy;
    Random random, *use;
    std::vector<size_t> taken;
    std::vector<uint64_t> latencies;
    Sink net, host;
    size_t ended = 0;
    uint64_t in_beats = 0, in_waits = 0, first_in = 0, last_out = 0, last_progress = 0;

  private:
    Pressure in_side, net_side, host_side;
    std::vector<uint64_t> entered;
    std::vector<Record> records;
    size_t next = 0, net_due = 0, host_due = 0;
    uint32_t offset = 0;
    bool offered = false;
};

#endif
