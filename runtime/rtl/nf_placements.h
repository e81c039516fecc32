/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * What tables of a pipe choose for themselves, as designs report it: where LRU tables put entries
 * (rtl/nf_pipe_hash.sv; an entry that is put where another one is evicts it), and which insertions
 * were refused (nf_top).
 */
#ifndef NF_PLACEMENTS_H
#define NF_PLACEMENTS_H

#include "svdpi.h"
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <map>
#include <string>
#include <utility>
#include <vector>

struct Eviction {
    uint64_t cycle;
    uint64_t event; /* how many came to the table before */
    uint32_t table;
    std::string key, by; /* which one went, and the new one in its place */
};

struct Refusal {
    uint64_t cycle;
    uint32_t table;
    uint32_t inserted; /* by the same event, before */
};

struct Placements {
    std::map<std::pair<int, int>, std::string> keys; /* by table and place */
    std::vector<Eviction> evictions;
    std::vector<Refusal> refusals;
    std::vector<uint64_t>
        passed; /* when each event passed a pipe's last stage, if records come later */
    std::map<uint32_t, std::vector<uint64_t>>
        turns;          /* by LRU table: when each event came to where it may change it */
    uint64_t cycle = 0; /* which it is now */

    /* The tables are empty. */
    void reset()
    {
        keys.clear();
        evictions.clear();
        refusals.clear();
        passed.clear();
        turns.clear();
    }

    /* Evictions by events, in the order of these; `span` says of a table how many cycles one may
     * take for its changes.
     */
    template <typename Span> std::vector<Eviction> by_events(Span span) const
    {
        std::vector<Eviction> found;
        for (Eviction one : evictions) {
            auto of = turns.find(one.table);
            if (of == turns.end())
                continue;
            const std::vector<uint64_t> &list = of->second;
            auto after = std::upper_bound(list.begin(), list.end(), one.cycle);
            /* Others are the host's. */
            if (after == list.begin() || *(after - 1) + span(one.table) < one.cycle)
                continue;
            one.event = after - list.begin() - 1;
            found.push_back(one);
        }
        auto sooner = [](const Eviction &a, const Eviction &b) { return a.event < b.event; };
        std::stable_sort(found.begin(), found.end(), sooner);
        return found;
    }
};

inline Placements placements;

extern "C" void nf_placed(int table, int place, svBit placed, const svBitVecVal *of)
{
    std::string key(128, '\0');
    memcpy(key.data(), of, key.size());
    std::pair<int, int> at = {table, place};
    auto before = placements.keys.find(at);
    if (before != placements.keys.end() && before->second != key)
        placements.evictions.push_back({placements.cycle, 0, (uint32_t)table, before->second, key});
    if (placed)
        placements.keys[at] = key;
    else
        placements.keys.erase(at);
}

extern "C" void nf_turn(int table)
{
    placements.turns[(uint32_t)table].push_back(placements.cycle);
}

extern "C" void nf_passed() { placements.passed.push_back(placements.cycle); }

extern "C" void nf_refused(int table, int inserted)
{
    placements.refusals.push_back({placements.cycle, (uint32_t)table, (uint32_t)inserted});
}

#endif
