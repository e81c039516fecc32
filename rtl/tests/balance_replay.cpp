// Plays given packets through nf_balance, with random stalls, and writes down what came out.
//
//     balance_replay CONFIG PACKETS OUT SEED
//
// CONFIG: pairs of register and value, four bytes each. A commit waits until its row is written. PACKETS: way (0 from the wire, 1 to the wire),
// length, bytes. OUT: for each packet of a way in order the way, the length, the cycle in which its first word was taken, and its bytes.
// All numbers are little-endian. tests/balancer.rs is the other side.

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <string>
#include <vector>

#include "Vnf_balance.h"
#include "verilated.h"

using Bytes = std::vector<uint8_t>;

[[noreturn]] static void fail(const std::string& what) {
    fprintf(stderr, "balance_replay: %s\n", what.c_str());
    exit(1);
}

static Bytes read_file(const char* path) {
    FILE* file = fopen(path, "rb");
    if (!file) fail(std::string(path) + ": cannot be read");
    Bytes bytes;
    for (int c; (c = fgetc(file)) != EOF;) bytes.push_back(c);
    fclose(file);
    return bytes;
}

static uint32_t word(const Bytes& bytes, size_t at) {
    if (at + 4 > bytes.size()) fail("a file ends too early");
    uint32_t value;
    memcpy(&value, &bytes[at], 4);
    return value;
}

static uint64_t state;
static bool stalls(unsigned percent) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (state >> 33) % 100 < percent;
}

static uint64_t cycles = 0;

struct Lane {
    uint32_t *s_data, *m_data;
    QData *s_keep, *m_keep;
    CData *s_last, *s_valid, *s_ready, *m_last, *m_valid, *m_ready;
    std::deque<Bytes> waiting;
    std::vector<uint64_t> taken;
    std::vector<Bytes> done;
    Bytes receiving;
    size_t at = 0;
    bool offering = false, accepting = false;

    void edge() {
        if (offering && *s_ready) {
            if (at == 0) taken.push_back(cycles);
            at += 64;
            offering = false;
            if (at >= waiting.front().size()) {
                waiting.pop_front();
                at = 0;
            }
        }
        if (*m_valid && accepting) {
            for (size_t i = 0; i < 64 && *m_keep >> i & 1; i++) receiving.push_back(m_data[i / 4] >> (i % 4 * 8));
            if (*m_last) {
                done.push_back(receiving);
                receiving.clear();
            }
        }
    }

    void drive() {
        if (!offering && !waiting.empty() && !stalls(20)) {
            const Bytes& packet = waiting.front();
            uint8_t beat[64] = {0};
            size_t count = packet.size() - at < 64 ? packet.size() - at : 64;
            memcpy(beat, &packet[at], count);
            memcpy(s_data, beat, 64);
            *s_keep = count == 64 ? ~0ull : (1ull << count) - 1;
            *s_last = at + 64 >= packet.size();
            offering = true;
        }
        *s_valid = offering;
        accepting = !stalls(20);
        *m_ready = accepting;
    }
};

static Vnf_balance* top;
static Lane lanes[2];

static void tick() {
    top->clk = 1;
    for (Lane& lane : lanes) lane.edge();
    top->eval();
    for (Lane& lane : lanes) lane.drive();
    top->clk = 0;
    top->eval();
    cycles++;
}

#include "balance_registers.hpp"

int main(int argc, char** argv) {
    if (argc != 5) fail("four arguments are needed");
    Bytes config = read_file(argv[1]), packets = read_file(argv[2]);
    state = strtoull(argv[4], nullptr, 10) * 0x9e3779b97f4a7c15ull | 1;
    top = new Vnf_balance;
#define LANE(number, p)                                                                                                         \
    lanes[number].s_data = top->p##_s_tdata.data(), lanes[number].m_data = top->p##_m_tdata.data(),                             \
    lanes[number].s_keep = &top->p##_s_tkeep, lanes[number].m_keep = &top->p##_m_tkeep, lanes[number].s_last = &top->p##_s_tlast, \
    lanes[number].s_valid = &top->p##_s_tvalid, lanes[number].s_ready = &top->p##_s_tready,                                     \
    lanes[number].m_last = &top->p##_m_tlast, lanes[number].m_valid = &top->p##_m_tvalid, lanes[number].m_ready = &top->p##_m_tready
    LANE(0, rx);
    LANE(1, tx);
    top->rst = 1;
    for (int i = 0; i < 4; i++) tick();
    top->rst = 0;
    for (size_t at = 0; at < config.size(); at += 8) {
        write(word(config, at), word(config, at + 4));
        if (word(config, at) == 0x20)
            while (read(0x28) & 1) continue;
    }
    size_t expected[2] = {0, 0};
    for (size_t at = 0; at < packets.size();) {
        uint32_t way = word(packets, at), length = word(packets, at + 4);
        if (way > 1 || length == 0 || at + 8 + length > packets.size()) fail("the packets make no sense");
        lanes[way].waiting.emplace_back(&packets[at + 8], &packets[at + 8] + length);
        expected[way]++;
        at += 8 + length;
    }
    uint64_t limit = cycles + 100 * packets.size() + 100000;
    while (lanes[0].done.size() < expected[0] || lanes[1].done.size() < expected[1]) {
        tick();
        if (cycles > limit) fail("packets are stuck");
    }
    FILE* out = fopen(argv[3], "wb");
    if (!out) fail(std::string(argv[3]) + ": cannot be written");
    for (uint32_t way = 0; way < 2; way++) {
        for (size_t i = 0; i < lanes[way].done.size(); i++) {
            const Bytes& packet = lanes[way].done[i];
            uint32_t length = packet.size();
            fwrite(&way, 4, 1, out);
            fwrite(&length, 4, 1, out);
            fwrite(&lanes[way].taken[i], 8, 1, out);
            fwrite(packet.data(), 1, length, out);
        }
    }
    if (fclose(out)) fail(std::string(argv[3]) + ": cannot be written");
    delete top;
    return 0;
}
