// Random packets with stalls through nf_balance, both ways at once; every packet that comes out is checked on its own.
//
//     balance PACKETS [SEED]
//
// What must hold: packets leave in order and whole. A packet that is not for a served address is untouched. One that is may be untouched (kept) or
// have the host's addresses; then nothing else differs but checksums, and these are right, computed from scratch over the whole
// packet. Where a checksum cannot be computed (first fragments) or was wrong before, the sum over address and checksum must
// not have changed. The meter keeps what it is told to, and statistics say what happened.

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <string>
#include <vector>

#include "Vnf_balance.h"
#include "verilated.h"

using Bytes = std::vector<uint8_t>;

static uint64_t state = 1;
static uint64_t rnd() {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state * 0x2545f4914f6cdd1dull >> 16;
}
static uint32_t below(uint32_t n) { return n ? rnd() % n : 0; }
static bool chance(double p) { return (rnd() & 0xffffff) < p * 0x1000000; }

[[noreturn]] static void fail(const std::string& what, const Bytes* in = nullptr, const Bytes* out = nullptr) {
    fprintf(stderr, "balance: %s\n", what.c_str());
    for (const Bytes* bytes : {in, out}) {
        if (!bytes) continue;
        for (uint8_t byte : *bytes) fprintf(stderr, "%02x", byte);
        fprintf(stderr, "\n");
    }
    exit(1);
}

static unsigned get16(const Bytes& b, size_t at) { return b[at] << 8 | b[at + 1]; }
static void put16(Bytes& b, size_t at, unsigned value) {
    b[at] = value >> 8;
    b[at + 1] = value;
}
static unsigned fold(uint64_t sum) {
    while (sum >> 16) sum = (sum & 0xffff) + (sum >> 16);
    return sum;
}
static uint64_t sum_of(const Bytes& b, size_t from, size_t to) {
    uint64_t sum = 0;
    for (size_t i = from; i + 1 < to; i += 2) sum += get16(b, i);
    return (to - from) % 2 ? sum + (b[to - 1] << 8) : sum;
}

struct Served {
    bool six;
    uint8_t vip[16], host[16], vip_mac[6], host_mac[6];
};

// Where things are in a packet that the hardware may change; written from the description, not from the hardware.
struct Found {
    bool eligible = false, six = false, fragment = false, udp = false;
    size_t address = 0, width = 0, ip_sum = 0, sum = 0, l4 = 0;
    unsigned protocol = 0;
    size_t tag = 0;
};

static Found find(const Bytes& b, bool source) {
    Found f;
    if (b.size() < 34) return f;
    unsigned kind = get16(b, 12);
    if (kind == 0x8100 || kind == 0x88a8) f.tag = 4, kind = get16(b, 16);
    size_t ip = 14 + f.tag;
    if (kind == 0x0800 && b.size() >= ip + 20 && b[ip] == 0x45) {
        unsigned place = get16(b, ip + 6) & 0x3fff;
        f.fragment = place != 0;
        f.protocol = b[ip + 9];
        f.address = ip + (source ? 12 : 16), f.width = 4, f.ip_sum = ip + 10, f.l4 = ip + 20;
        f.eligible = true;
        if ((place & 0x1fff) != 0) return f;
    } else if (kind == 0x86dd && b.size() >= ip + 40 && b[ip] >> 4 == 6) {
        f.six = true;
        f.protocol = b[ip + 6];
        f.address = ip + (source ? 8 : 24), f.width = 16, f.l4 = ip + 40;
        f.eligible = f.protocol == 6 || f.protocol == 17;
    } else {
        return f;
    }
    if (f.protocol == 6) f.sum = f.l4 + 16;
    if (f.protocol == 17) f.sum = f.l4 + 6, f.udp = true;
    // In the second word the hardware sees only that there is one; a checksum cut off there is not patched.
    if (f.sum && b.size() < (f.sum >= 64 ? 65 : f.sum + 2)) f.eligible = false;
    return f;
}

static uint64_t pseudo(const Bytes& b, const Found& f) {
    size_t ip = 14 + f.tag;
    uint64_t sum = f.six ? sum_of(b, ip + 8, ip + 40) : sum_of(b, ip + 12, ip + 20);
    return sum + f.protocol + (b.size() - f.l4);
}

// A bad checksum in `out` where `in` had a good one, or any other difference than the wanted one, ends the run.
static bool check(const Bytes& in, const Bytes& out, const Served* to, bool source) {
    if (in.size() != out.size()) fail("a packet changed its length", &in, &out);
    if (in == out) return false;
    Found f = find(in, source);
    if (!f.eligible || !to) fail("a packet was changed that is not served", &in, &out);
    const uint8_t *mac = source ? to->vip_mac : to->host_mac, *address = source ? to->vip : to->host;
    Bytes want = in;
    memcpy(&want[source ? 6 : 0], mac, 6);
    memcpy(&want[f.address], address + 16 - f.width, f.width);
    // Checksums: copied, then looked at on their own.
    bool none = f.udp && f.sum && f.sum + 1 < in.size() && get16(in, f.sum) == 0;
    if (f.ip_sum) put16(want, f.ip_sum, get16(out, f.ip_sum));
    if (f.sum && !none && f.sum + 1 < in.size()) put16(want, f.sum, get16(out, f.sum));
    if (want != out) fail("a packet was changed elsewhere", &in, &out);
    size_t ip = 14 + f.tag;
    auto same = [](uint64_t a, uint64_t b) { return fold(a) % 0xffff == fold(b) % 0xffff; };
    if (f.ip_sum) {
        if (!same(sum_of(in, ip, ip + 20), sum_of(out, ip, ip + 20))) fail("IPv4's checksum is wrong", &in, &out);
        if (fold(sum_of(in, ip, ip + 20)) == 0xffff && fold(sum_of(out, ip, ip + 20)) != 0xffff)
            fail("IPv4's checksum is bad", &in, &out);
    }
    if (!f.sum || none || f.sum + 1 >= in.size()) return true;
    uint64_t before = sum_of(in, f.address, f.address + f.width) + get16(in, f.sum);
    uint64_t after = sum_of(out, f.address, f.address + f.width) + get16(out, f.sum);
    if (!same(before, after)) fail("the checksum over the payload is wrong", &in, &out);
    if (f.udp && get16(out, f.sum) == 0) fail("a UDP checksum became none", &in, &out);
    if (!f.fragment && fold(pseudo(in, f) + sum_of(in, f.l4, in.size())) == 0xffff &&
        fold(pseudo(out, f) + sum_of(out, f.l4, out.size())) != 0xffff)
        fail("the checksum over the payload is bad", &in, &out);
    return true;
}

static std::vector<Served> served;

static const Served* server(const Bytes& b, bool source) {
    Found f = find(b, source);
    if (!f.eligible) return nullptr;
    for (const Served& s : served)
        if (s.six == f.six && !memcmp((source ? s.host : s.vip) + 16 - f.width, &b[f.address], f.width)) return &s;
    return nullptr;
}

static bool same_flow = false;    // all packets have zeros where the flow is read

static Bytes packet(bool source) {
    const Served& s = served[below(served.size())];
    const uint8_t* own = source ? s.host : s.vip;
    size_t tag = below(10) < 6 ? 0 : below(8) ? 4 : 8;
    bool options = !s.six && chance(0.03);
    unsigned protocol = below(10) < 4 ? 6 : below(8) < 6 ? 17 : s.six ? 58 : below(2) ? 1 : 47;
    size_t ip = 14 + tag, header = s.six ? 40 : options ? 24 : 20;
    size_t least = protocol == 6 ? 20 : 8;
    size_t payload = chance(0.05) ? below(1400) : below(120);
    Bytes b(ip + header + least + payload);
    for (uint8_t& byte : b) byte = chance(0.02) ? 0xff : rnd();
    if (same_flow) memset(&b[ip + (s.six ? 8 : 12)], 0, s.six ? 16 : 4), memset(&b[ip + header], 0, 4);
    if (tag) put16(b, 12, chance(0.5) ? 0x8100 : 0x88a8);
    if (tag == 8) put16(b, 16, 0x8100);
    put16(b, ip - 2, chance(0.02) ? 0x0806 : s.six ? 0x86dd : 0x0800);
    uint8_t address[16];
    memcpy(address, own, 16);
    if (chance(0.1)) address[s.six ? below(16) : 12 + below(4)] ^= 1 << below(8);   // a neighbour, not served
    unsigned place = 0;
    if (s.six) {
        b[ip] = 0x60;
        put16(b, ip + 4, least + payload);
        b[ip + 6] = protocol;
        memcpy(&b[ip + (source ? 8 : 24)], address, 16);
    } else {
        b[ip] = options ? 0x46 : 0x45;
        put16(b, ip + 2, b.size() - ip);
        place = chance(0.08) ? (below(2) ? 0x2000 : below(0x2000)) : 0x4000;
        put16(b, ip + 6, place);
        b[ip + 9] = protocol;
        memcpy(&b[ip + (source ? 12 : 16)], address + 12, 4);
        put16(b, ip + 10, 0);
        put16(b, ip + 10, 0xffff ^ fold(sum_of(b, ip, ip + header)));
    }
    size_t l4 = ip + header;
    Found f;
    f.six = s.six, f.tag = tag, f.l4 = l4, f.protocol = protocol;
    size_t at = protocol == 6 ? l4 + 16 : l4 + 6;
    if ((protocol == 6 || protocol == 17) && !(place & 0x1fff)) {
        put16(b, at, 0);
        if (chance(0.1) && payload >= 2 && (l4 + least) % 2 == 0) {
            // Payload for which the sum is zero, before or after the change of address.
            Bytes other = b;
            const uint8_t* next = source ? s.vip : s.host;
            if (chance(0.7)) memcpy(&other[ip + (s.six ? (source ? 8 : 24) : (source ? 12 : 16))], next + (s.six ? 0 : 12), s.six ? 16 : 4);
            put16(other, l4 + least, 0);
            put16(b, l4 + least, 0xffff ^ fold(pseudo(other, f) + sum_of(other, l4, other.size())));
        }
        unsigned sum = 0xffff ^ fold(pseudo(b, f) + sum_of(b, l4, b.size()));
        if (protocol == 17) sum = chance(0.1) ? 0 : sum ? sum : 0xffff;
        if (chance(0.03)) sum = chance(0.5) ? 0xffff : rnd() & 0xffff;    // wrong, and to stay as wrong as it is
        put16(b, at, sum);
    }
    if (chance(0.03)) b.resize(1 + below(b.size()));
    return b;
}

// One direction: a sender and a receiver with random stalls.
struct Lane {
    bool source;
    uint32_t *s_data, *m_data;
    QData *s_keep, *m_keep;
    CData *s_last, *s_valid, *s_ready, *m_last, *m_valid, *m_ready;
    std::deque<Bytes> inside;   // sent, not yet back
    Bytes sending, receiving;
    size_t at = 0;
    bool offering = false, accepting = false;
    double stall_in = 0, stall_out = 0;
    uint64_t left = 0, done = 0, changed = 0, eligible = 0, kept_bytes = 0, changed_bytes = 0, eligible_bytes = 0;
    uint64_t fragments_kept = 0;
    size_t widest = 0;
    std::map<unsigned, std::pair<uint64_t, uint64_t>> buckets;    // kept and diverted

    void edge() {
        if (offering && *s_ready) {
            at += 64;
            offering = false;
            if (at >= sending.size()) {
                inside.push_back(sending);
                sending.clear();
            }
        }
        if (*m_valid && accepting) {
            size_t count = 0;
            while (count < 64 && *m_keep >> count & 1) count++;
            for (size_t i = 0; i < count; i++) receiving.push_back(m_data[i / 4] >> (i % 4 * 8));
            if (*m_last) finish();
        }
    }

    void drive() {
        if (!offering) {
            if (sending.empty() && left) sending = packet(source), at = 0, left--;
            if (!sending.empty() && !chance(stall_in)) {
                offering = true;
                uint64_t keep = 0;
                for (size_t i = 0; i < 16; i++) s_data[i] = rnd();
                for (size_t i = 0; i < 64 && at + i < sending.size(); i++) {
                    s_data[i / 4] &= ~(0xffu << (i % 4 * 8));
                    s_data[i / 4] |= uint32_t(sending[at + i]) << (i % 4 * 8);
                    keep |= 1ull << i;
                }
                *s_keep = keep;
                *s_last = at + 64 >= sending.size();
            }
        }
        *s_valid = offering;
        accepting = !chance(stall_out);
        *m_ready = accepting;
    }

    void finish() {
        if (inside.empty()) fail("a packet came out that did not go in", &receiving);
        Bytes in = inside.front();
        inside.pop_front();
        const Served* to = server(in, source);
        bool different = check(in, receiving, to, source);
        done++;
        if (to) {
            size_t wire = in.size() + 24;
            eligible++, eligible_bytes += wire;
            if (wire > widest) widest = wire;
            (different ? changed_bytes : kept_bytes) += wire;
            changed += different;
            Found f = find(in, source);
            fragments_kept += f.fragment && !different;
            size_t ip = 14 + f.tag, src = f.six ? ip + 20 : ip + 12;
            unsigned flow = get16(in, src) ^ get16(in, src + 2);
            if (!f.fragment && f.sum && (f.six || !f.fragment)) flow ^= get16(in, f.l4);
            auto& bucket = buckets[(flow ^ flow >> 10) & 1023];
            (different ? bucket.second : bucket.first)++;
        }
        receiving.clear();
    }

    void forget() {
        done = changed = eligible = kept_bytes = changed_bytes = eligible_bytes = fragments_kept = 0;
        widest = 0;
        buckets.clear();
    }
};

static Vnf_balance* top;
static Lane rx, tx;
static uint64_t cycles = 0;

static void tick() {
    top->clk = 1;
    rx.edge();
    tx.edge();
    top->eval();
    rx.drive();
    tx.drive();
    top->clk = 0;
    top->eval();
    cycles++;
}

#include "balance_registers.hpp"

static void write_row(bool merger, const Served& s) {
    const uint8_t *from = merger ? s.host : s.vip, *to = merger ? s.vip : s.host, *mac = merger ? s.vip_mac : s.host_mac;
    uint64_t delta = 0;
    for (int i = 0; i < 16; i += 2) {
        unsigned a = from[i] << 8 | from[i + 1], b = to[i] << 8 | to[i + 1];
        if (a != b) delta += (0xffff ^ a) + b;
    }
    // {used, six, address, new, mac, difference}: 322 bits in 11 words, high first.
    Bytes bits;
    auto push = [&](uint64_t value, int width) {
        for (int i = width - 1; i >= 0; i--) bits.push_back(value >> i & 1);
    };
    push(0, 30);
    push(1, 1);
    push(s.six, 1);
    for (int i = 0; i < 16; i++) push(from[i], 8);
    for (int i = 0; i < 16; i++) push(to[i], 8);
    for (int i = 0; i < 6; i++) push(mac[i], 8);
    push(fold(delta), 16);
    for (size_t word = 0; word < 11; word++) {
        uint32_t value = 0;
        for (size_t i = 0; i < 32; i++) value = value << 1 | bits[word * 32 + i];
        write(0x1c, value);
    }
    uint32_t low = from[12] << 24 | from[13] << 16 | from[14] << 8 | from[15];
    unsigned row = (low ^ low >> 9 ^ low >> 18 ^ low >> 27) & 511;
    write(0x20, row | (merger ? 1 << 16 : 0));
    while (read(0x28) & 1) continue;
}

static uint32_t window_bytes;   // as they were in the middle of the last phase

// Runs so many packets each way (and checks and prints statistics if it has a name); the cycles until all from the wire were through.
static uint64_t phase(const char* name, uint64_t packets) {
    rx.forget();
    tx.forget();
    rx.left = tx.left = packets;
    uint32_t before[5];
    for (unsigned i = 0; i < 5; i++) before[i] = read(0x30 + 4 * i);
    uint64_t start = cycles, last = cycles, received = 0, done = 0;
    rx.stall_in = below(3) * 0.2, rx.stall_out = below(3) * 0.2;
    tx.stall_in = below(3) * 0.3, tx.stall_out = below(3) * 0.3;
    while (rx.done < packets || tx.done < packets) {
        tick();
        if (rx.done + tx.done != done) done = rx.done + tx.done, last = cycles;
        if (rx.done == packets / 2) window_bytes = read(0x2c);
        if (rx.done == packets && !received) received = cycles - start;
        if (cycles - last > 10000) fail(std::string("packets are stuck in ") + (name ? name : "one flow"));
    }
    for (int i = 0; i < 4; i++) tick();
    auto counted = [&](unsigned i) { return read(0x30 + 4 * i) - before[i]; };
    if (!name) return received;
    bool shadow = !strcmp(name, "shadow");
    if (counted(0) + counted(2) != rx.eligible) fail(std::string("packets are counted wrongly in ") + name);
    if (counted(1) + counted(3) != uint32_t(rx.eligible_bytes)) fail(std::string("bytes are counted wrongly in ") + name);
    if (!shadow && (counted(2) != rx.changed || counted(3) != uint32_t(rx.changed_bytes)))
        fail(std::string("diverted packets are counted wrongly in ") + name);
    if (shadow && (rx.changed || counted(2) == 0)) fail("shadow mode must count and change nothing");
    if (counted(4) != tx.changed || tx.changed != tx.eligible) fail(std::string("answers were not merged in ") + name);
    printf("%-14s %8llu packets in %9llu cycles, %5.1f %% of %llu eligible diverted, %llu merged\n", name,
           (unsigned long long)(2 * packets), (unsigned long long)(cycles - start), 100.0 * rx.changed / (rx.eligible ? rx.eligible : 1),
           (unsigned long long)rx.eligible, (unsigned long long)tx.changed);
    return received;
}

static void expect(bool holds, const char* what) {
    if (!holds) fail(what);
}

int main(int argc, char** argv) {
    uint64_t packets = argc > 1 ? strtoull(argv[1], nullptr, 10) : 50000;
    state = argc > 2 ? strtoull(argv[2], nullptr, 10) * 0x9e3779b97f4a7c15ull | 1 : 0x9e3779b97f4a7c15ull;
    top = new Vnf_balance;
    rx.source = false;
    tx.source = true;
#define LANE(lane, p)                                                                                         \
    lane.s_data = top->p##_s_tdata.data(), lane.m_data = top->p##_m_tdata.data(), lane.s_keep = &top->p##_s_tkeep, \
    lane.m_keep = &top->p##_m_tkeep, lane.s_last = &top->p##_s_tlast, lane.s_valid = &top->p##_s_tvalid,     \
    lane.s_ready = &top->p##_s_tready, lane.m_last = &top->p##_m_tlast, lane.m_valid = &top->p##_m_tvalid,   \
    lane.m_ready = &top->p##_m_tready
    LANE(rx, rx);
    LANE(tx, tx);
    top->rst = 1;
    for (int i = 0; i < 4; i++) tick();
    top->rst = 0;

    for (int i = 0; i < 6; i++) {
        Served s = {};
        s.six = i % 2;
        for (int j = s.six ? 0 : 12; j < 16; j++) s.vip[j] = rnd(), s.host[j] = i == 4 ? s.vip[j] : rnd();
        if (i == 4) s.host[15] ^= 2;    // neighbours, as in the published set-up
        for (int j = 0; j < 6; j++) s.vip_mac[j] = rnd(), s.host_mac[j] = rnd();
        served.push_back(s);
        write_row(false, s);
        write_row(true, s);
    }

    uint64_t each = packets / 2 / 10 + 1;
    write(0x00, 1 << 2);
    phase("route nic", each);
    expect(rx.changed == 0, "route 1 keeps everything");
    write(0x00, 2 << 2);
    phase("route host", each * 3);
    expect(rx.changed == rx.eligible, "route 2 diverts everything");

    const double rate = 8.0;
    write(0x04, uint32_t(rate * 4096));
    write(0x0c, 4096);
    write(0x00, 1);
    uint64_t took = phase("token bucket", each * 2);
    double most = rate * took + 4096 + rx.widest;
    expect(rx.kept_bytes <= most, "the token bucket kept more than its rate");
    expect(rx.kept_bytes >= 0.9 * std::min(rate * took, rx.eligible_bytes * 0.8), "the token bucket kept less than its rate");
    expect(rx.fragments_kept == 0, "fragments must meet on the host");

    write(0x08, 16000);
    write(0x14, 1999);
    write(0x00, 0);
    took = phase("window", each);
    most = (took / 2000.0 + 2) * (16000 + rx.widest);
    expect(rx.kept_bytes <= most, "a window kept more than its credit");
    expect(rx.kept_bytes >= 0.9 * std::min(8.0 * took, rx.eligible_bytes * 0.8), "a window kept less than its credit");
    expect(window_bytes > 0 && window_bytes < 2000 * 64, "the bytes of a window");

    write(0x10, 1229);    // 30 %
    write(0x00, 2);
    phase("proportional", each);
    // What the window left on the account is kept besides; fragments and words beyond the burst are not.
    most = 0.301 * rx.eligible_bytes + 16000 + rx.widest;
    expect(rx.kept_bytes > 0.25 * rx.eligible_bytes && rx.kept_bytes < most, "the share that is kept");

    write(0x00, 0x10 | 2);
    phase("shadow", each / 2 + 100);

    // Every third bucket to the host: first nothing moves, since no bucket has been quiet; with no drain time all do.
    for (unsigned bucket = 0; bucket < 1024; bucket += 3) write(0x24, bucket | 1 << 16);
    write(0x18, 0x3fff);
    write(0x00, 3);
    phase("flows held", each / 2 + 100);
    expect(rx.changed == 0, "a bucket moved before its drain time");
    write(0x18, 0);
    phase("flows moved", each);
    for (auto& [bucket, counts] : rx.buckets) {
        bool host = bucket % 3 == 0;
        if (!host && counts.second) fail("a bucket of the NIC was diverted");
        // The first packet of a bucket that has had none only stamps the time.
        if (host && counts.first > 1) fail("a bucket of the host was kept");
    }
    expect(rx.changed > 0, "no bucket moved");

    // One flow back and forth, packets close together: the first packet stamps the time, the next one moves the bucket.
    same_flow = true;
    for (unsigned round = 0; round < 40; round++) {
        bool host = round % 2;
        write(0x24, host ? 1 << 16 : 0);
        phase(nullptr, 60);
        uint64_t late = host ? rx.eligible - rx.changed : rx.changed;
        expect(late <= 1, "a flow moved late: state of its bucket was lost between packets");
    }
    same_flow = false;

    // Reset with packets inside: what comes afterwards is whole again.
    rx.left = tx.left = 50;
    for (int i = 0; i < 60; i++) tick();
    top->rst = 1;
    for (int i = 0; i < 3; i++) {
        rx.left = tx.left = 0;
        rx.sending.clear(), tx.sending.clear();
        rx.offering = tx.offering = false;
        tick();
    }
    rx.inside.clear(), tx.inside.clear();
    rx.receiving.clear(), tx.receiving.clear();
    top->rst = 0;
    write(0x00, 2 << 2);
    phase("after reset", each / 4 + 10);
    expect(rx.changed == rx.eligible, "rows survive a reset");
    printf("no bad packet\n");
    delete top;
    return 0;
}
