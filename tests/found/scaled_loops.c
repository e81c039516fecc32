/* Loops that end because what they count in, or what lies between two variables, shrinks or grows
 * by a factor: a heap, binary searches, powers. */
#include <nicforge.h>

struct told {
    uint32_t key;
    uint16_t code;
    uint8_t bytes[6];
    uint64_t sum;
};

static const uint16_t ports[9] = {1, 5, 80, 443, 1000, 2000, 3000, 9000, 60000};
static uint32_t heap[16];
static uint32_t used;

/* The first port that is not below one. */
static uint32_t lower(uint32_t port)
{
    uint32_t lo = 0, hi = 9;
    while (lo < hi) {
        uint32_t mid = lo + (hi - lo) / 2;
        if (ports[mid] < port)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

static int find(uint32_t port)
{
    int lo = 0, hi = 8, mid;
    while (lo <= hi) {
        mid = (lo + hi) >> 1;
        if (ports[mid] == port)
            return mid;
        if (ports[mid] < port)
            lo = mid + 1;
        else
            hi = mid - 1;
    }
    return -1;
}

static uint32_t last(uint32_t port)
{
    uint32_t lo = 0, hi = 9;
    while (hi - lo > 1) {
        uint32_t mid = (lo + hi) / 2;
        if (ports[mid] > port)
            hi = mid;
        else
            lo = mid;
    }
    return lo;
}

static void push(uint32_t key)
{
    if (used >= 16)
        return;
    uint32_t i = used++;
    heap[i] = key;
    while (i > 0 && heap[(i - 1) / 2] > heap[i]) {
        uint32_t parent = heap[(i - 1) / 2];
        heap[(i - 1) / 2] = heap[i];
        heap[i] = parent;
        i = (i - 1) / 2;
    }
}

void net_recv(nf_pkt pkt)
{
    struct told told;
    if (!nf_extract(pkt, &told)) {
        nf_drop(pkt, "short");
        return;
    }
    push(told.key);
    told.sum += heap[0] + heap[told.code & 15];
    for (int i = 0; i < 9; i++)
        for (int j = -1; j <= 1; j++)
            told.sum = told.sum * 7 + lower(ports[i] + j) * 64 + find(ports[i] + j) * 8 +
                       last(ports[i] + j);
    for (uint32_t n = 1; n < 64; n <<= 1)
        told.sum = told.sum * 3 + (told.key & n);
    for (uint32_t n = 1; n <= told.code; n *= 2)
        told.sum++;
    for (uint64_t n = 3; n < 1000; n = 3 * n + 1)
        told.sum ^= n;
    nf_emit(pkt, &told);
    nf_send(pkt, 0);
}
