/* Conditions of loops that change something before they fail: the test that ends a loop counts. */
#include <nicforge.h>

static uint32_t words[8];
static uint32_t calls;

static bool count(void) { return ++calls != 0; }

static uint32_t twice(uint32_t n)
{
    uint32_t local = n;
    local += n;
    return local;
}

static bool fill(uint32_t *to, uint32_t n)
{
    *to += n;
    return true;
}

static uint32_t tests(uint32_t n)
{
    uint32_t i, last = 0, sum = 0;
    for (i = 0; (last = i) < 50 && i < 4; i++)
        sum += last;
    sum = sum * 16 + last;
    for (i = 0; (last += n, i < 5); i++)
        sum += last & 1;
    i = 0;
    while (count() && i < 3)
        i++;
    i = 0;
    while (i < 3 && count())
        i++;
    for (i = 0; fill(&last, 3) && (sum & 15) != 7 && i < 6; i++)
        sum++;
    for (i = n & 7; fill(&words[i], 1), i != 0; i--)
        sum += 2;
    for (i = 0; twice(i) < 200 && i < 3; i++)
        sum += 3;
    for (i = 0; count() && i++ < 4;)
        sum += i;
    do
        sum += 5;
    while (count() && ++i < 9);
    uint32_t lo = 0, hi = 8;
    while (count() && lo < hi) {
        uint32_t mid = (lo + hi) / 2;
        if (words[mid] < n)
            lo = mid + 1;
        else
            hi = mid;
    }
    for (i = 0;; i++) {
        if (i >= 3 || !count())
            break;
        sum += i;
    }
    return sum + lo + last + i;
}

void net_recv(nf_pkt pkt)
{
    struct {
        uint8_t of[16];
    } head;
    if (!nf_extract(pkt, &head)) {
        nf_drop(pkt);
        return;
    }
    uint32_t sum = tests(head.of[0]) ^ calls << 4;
    head.of[1] = (uint8_t)sum;
    head.of[2] = (uint8_t)(sum >> 8);
    for (uint32_t i = 0; i < 8; i++)
        head.of[4 + i] = (uint8_t)words[i];
    nf_emit(pkt, &head);
    nf_send(pkt, sum & 1);
}
