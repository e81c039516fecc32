// test: check
// Searches that may not end: the middle stays, or what is below 0 is above all.
#include <nicforge.h>

static const uint16_t ports[8] = {1, 5, 80, 443, 1000, 2000, 3000, 9000};

void net_recv(nf_pkt pkt)
{
    uint32_t port = nf_len(pkt), lo = 0, hi = 7;
    while (lo <= hi) {
        uint32_t mid = (lo + hi) / 2;
        if (ports[mid & 7] < port)
            lo = mid + 1;
        else
            hi = mid - 1;
    }
    lo = 0;
    hi = 7;
    while (lo < hi) {
        uint32_t mid = (lo + hi) / 2;
        if (ports[mid & 7] < port)
            lo = mid;
        else
            hi = mid;
    }
    int low = 0, high = 7;
    while (low <= high) {
        int mid = (low + high) / 2;
        if (ports[mid & 7] < port)
            low = mid + 1;
        else if (port & 1)
            high = mid - 1;
    }
    for (uint32_t n = 0; n < 8; n *= 2)
        port++;
    for (uint8_t n = 1; n < 200; n *= 2)
        port++;
    nf_send(pkt, lo + low + port);
}
