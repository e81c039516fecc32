// test: lower
// Loops, switch with and without fall-through, break and continue at several depths, ternary, short circuit.
#include <nicforge.h>

static int classify(uint8_t kind)
{
    int weight;
    switch (kind) {
    case 1:
    case 2:
        weight = 10;
        break;
    default:
        weight = 1;
        break;
    case 7 ... 9:
        return 5;
    }
    switch (kind & 3) {
    case 0:
        weight += 1;
    case 1:
        weight += 2;
        if (weight > 5)
            break;
    default:
        weight *= 2;
    }
    return weight;
}

static uint32_t sum(const struct nf_mac *mac, uint32_t limit)
{
    uint32_t total = 0;
    for (int i = 0; i < 6; i++) {
        if (mac->b[i] == 0)
            continue;
        for (uint8_t j = 0; j < 4; j++) {
            if (j == mac->b[i])
                break;
            total += mac->b[i] & j;
        }
        if (total > limit)
            return limit;
    }
    return total;
}

void net_recv(nf_pkt pkt)
{
    struct nf_eth eth;
    if (!nf_extract(pkt, &eth)) {
        nf_drop(pkt);
        return;
    }
    int weight = classify(eth.dst.b[0]);
    uint32_t n = nf_len(pkt);
    if (n > 16)
        n = 16;
    while (n > 0 && weight < 100) {
        weight++;
        n--;
    }
    do {
        NF_BOUND(4);
        weight -= 3;
        if (weight == 2)
            continue;
    } while (weight > 0);
    bool odd = weight & 1 && sum(&eth.src, 100);
    if (NF_LIKELY(0.9, odd || eth.type == NF_HTONS(NF_ETH_IPV4)))
        nf_send(pkt, odd ? 1 : 0);
    else
        nf_pass(pkt);
}
