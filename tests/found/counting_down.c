/* Loops whose conditions change what they compare. */
#include <nicforge.h>

struct head {
    uint32_t sum;
    uint16_t n;
    uint8_t bytes[6];
} __attribute__((packed));

static uint32_t copied(uint8_t *to, const uint8_t *from, uint32_t n)
{
    uint32_t sum = 0;
    while (n--) {
        sum += n;
        *to++ = *from++;
    }
    return sum;
}

void net_recv(nf_pkt pkt)
{
    struct head h;
    uint8_t copy[8] = {0};
    uint32_t sum = 0;
    if (!nf_extract(pkt, &h)) {
        nf_drop(pkt, "short");
        return;
    }
    for (unsigned i = 6; i-- > 0;)
        sum = sum * 31 + h.bytes[i];
    sum += copied(copy, h.bytes, h.n & 3);
    int left = h.n & 7;
    while (left-- > 0 && copy[left] != 7)
        sum += copy[left] + (uint32_t)left;
    sum += (uint32_t)left * 5;
    uint8_t k = (h.n >> 4 & 3) + 1;
    while (--k) {
        if (h.bytes[k] & 1)
            continue;
        sum ^= (uint32_t)k << 8;
    }
    sum += k;
    int m = 0;
    while (m++ < 5) {
        if (h.bytes[m] == 9)
            break;
        sum += (uint32_t)m;
    }
    for (uint8_t i = 0, j = 5; i < j; i++, j--) {
        uint8_t swapped = h.bytes[i];
        h.bytes[i] = h.bytes[j];
        h.bytes[j] = swapped;
    }
    uint32_t low = 0, high = h.n & 7;
    while (high > low) {
        sum = sum * 5 + copy[low] + copy[high];
        low++;
        if (copy[high] & 1)
            high--;
    }
    do {
        sum += (uint32_t)m;
        m++;
    } while (++m < 12);
    for (int i = 0; i < m; i++)
        sum = sum * 3 + (uint32_t)i;
    h.sum = sum + (uint32_t)m;
    nf_emit(pkt, &h);
    nf_send(pkt, 0);
}
