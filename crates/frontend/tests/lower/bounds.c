// test: lower
// Loops whose bound follows from types, masks, guards, minima and shifts; the number behind `loop` is the bound.
#include <nicforge.h>

#define MIN(a, b) ((a) < (b) ? (a) : (b))

static uint32_t guarded(uint32_t n)
{
    uint32_t sum = 0;
    if (n > 20 || n == 3)
        return 0;
    for (uint32_t i = 0; i < n; i++)
        sum += i;
    return sum;
}

struct entry {
    uint16_t count;
    struct {
        int first;
    } range;
};

NF_TABLE(array, entries, uint32_t, struct entry, 4);

static uint32_t members(uint32_t at)
{
    struct entry entry;
    uint32_t sum = 0;
    if (!nf_lookup(&entries, at, &entry) || entry.count > 30 || entry.range.first < -2)
        return 0;
    for (int i = 0; i < entry.count; i++)
        sum += i;
    for (int i = entry.range.first; i < 5; i++)
        sum += i;
    return sum;
}

static uint32_t triangles(void)
{
    uint32_t sum = 0;
    for (int i = 0; i < 5; i++) {
        for (int j = i + 1; j < 5; j++)
            sum += j;
    }
    for (int i = 5; i > 0; i--) {
        for (int j = 0; j < i; j++)
            sum += j;
    }
    return sum;
}

static uint32_t loops(const struct nf_ipv4 *ip, uint8_t byte, uint32_t n)
{
    uint32_t sum = 0;
    for (uint32_t i = 5; i < ip->ihl; i++)
        sum += i;
    for (int i = 0; i < byte; i++)
        sum += i;
    for (uint32_t i = 0; i < (n & 12); i += 4)
        sum += i;
    uint32_t least = MIN(n, 9);
    for (uint32_t i = 0; i != least; ++i)
        sum += i;
    for (uint32_t i = n % 7; i > 0; i--)
        sum += i;
    for (uint32_t mask = n; mask; mask >>= 4)
        sum += mask & 15;
    int k = 10;
    while (k >= 0 && sum < 1000) {
        sum += k;
        k -= 2;
    }
    k = 0;
    do
        k++;
    while (k < 6);
    for (int i = 10; i > 3; i = i - 3)
        sum -= i;
    for (int i = 0; i < 10; i = i + 3) {
        for (int j = 0; j <= i; j++)
            sum ^= j;
    }
    return sum;
}

void net_recv(nf_pkt pkt)
{
    struct nf_ipv4 ip;
    if (!nf_extract(pkt, &ip)) {
        nf_drop(pkt);
        return;
    }
    nf_send(pkt, guarded(nf_len(pkt)) + members(nf_len(pkt) & 3) + triangles() + loops(&ip, ip.ttl, nf_len(pkt)));
}
